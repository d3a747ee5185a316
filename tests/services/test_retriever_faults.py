"""The retriever when things go wrong: no half of a document, no old version again, nothing lost, deleted is deleted."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from indexed_words import DIM
from patience import until
from retriever_rig import CHUNKS, Rig, embedder, numbers, prices, running, vectors_for

from hasten.bus import Bus
from hasten.messages.change import CHANGE, Change
from hasten.messages.failure import Failed, Failure
from hasten.messages.retrieve import Document
from hasten.retriever.records import Key
from hasten.retriever.rows import Mail
from hasten.vectors.store import StoreError


async def test_readers_see_one_whole_version_at_every_moment(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, url="embedded") as rig:
        await rig.put(prices(0))
        last = 0
        reads = [0, 0, 0]
        done = False

        async def read(reader: int) -> None:
            nonlocal last
            while not done:
                known = last
                found = await rig.found("fee euro", limit=20)
                seen = numbers(found)
                assert len(found) == 3, "neither, or only a part"
                assert len(seen) == 1, "both"
                assert seen.pop() >= known, "an older version than before the question"
                last = max(last, *numbers(found))
                reads[reader] += 1

        readers = [asyncio.create_task(read(reader)) for reader in range(len(reads))]

        async def read_until(holds: Callable[[], bool]) -> None:
            await until(lambda: holds() or any(reader.done() for reader in readers))

        async def read_on() -> None:
            before = sum(reads)
            await read_until(lambda: sum(reads) > before)

        for number in range(1, 40):
            await rig.send(prices(number))
            if number % 3 == 0:
                await read_on()
        await read_until(lambda: last == 39)
        done = True
        await asyncio.gather(*readers)
        await until(lambda: rig.retriever.report()["lag"] == 0)
        assert await rig.vectors.count(CHUNKS) == 3


async def test_a_replacement_during_a_search_makes_it_search_again(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        await rig.put(prices(1))
        number = 1

        async def replace() -> None:
            nonlocal number
            if number < 4:
                number += 1
                await rig.put(prices(number))

        rig.vectors.after_search = replace
        assert numbers(await rig.found("fee", limit=20)) == {4}


def mail(sequence: int, document: Document) -> Mail:
    return Mail(Key("acme", "help", document.id), sequence, document)


async def test_an_older_version_never_replaces_a_newer_one(bus: Bus, tmp_path: Path) -> None:
    """Redelivered, or slow on another replica: whatever the order in which the steps of two versions happen."""
    async with running(bus, tmp_path) as rig:
        writer = rig.retriever._ingestion._writer
        await writer.apply(mail(50, prices(50)))
        assert (await writer.apply(mail(40, prices(40)))).version == 50
        assert numbers(await rig.found("fee")) == {50}
        rig.words.delay_s = 0.2
        slow = asyncio.create_task(writer.apply(mail(60, prices(60))))
        await until(lambda: any("60" in text for text in rig.words.texts))
        rig.words.delay_s = 0.0
        await writer.apply(mail(70, prices(70)))
        await slow
        assert numbers(await rig.found("fee")) == {70}
        assert await rig.vectors.count(CHUNKS) == 3
        await writer.apply(mail(90, Document(id="prices", op="delete")))
        await writer.apply(mail(80, prices(80)))
        assert await rig.found("fee") == []
        assert await rig.vectors.count(CHUNKS) == 0
        assert await rig.vectors.count() == 2, "the tombstone and the point about the collection"


async def test_a_late_manifest_of_an_old_version_changes_nothing(bus: Bus, tmp_path: Path) -> None:
    """A replica that stopped between its check and its write goes on after a newer version is there."""
    async with running(bus, tmp_path) as rig:
        writer, library = rig.retriever._ingestion._writer, rig.retriever._library
        await writer.apply(mail(10, prices(10)))
        late = await writer._replace(mail(20, prices(20)))
        await writer.apply(mail(30, prices(30)))
        late_points = await writer._replace(mail(20, prices(20)))
        assert late == late_points
        await library.flip(Key("acme", "help", "prices"), late)
        assert numbers(await rig.found("fee", limit=20)) == {30}
        await library.clean(Key("acme", "help", "prices"))
        assert await rig.vectors.count(CHUNKS) == 3


async def test_an_embedder_that_is_away_for_a_while_costs_nothing_but_time(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        await rig.put(prices(1))
        rig.words.broken = Failed("unavailable", "the model is loading")
        sent = [await rig.send(Document(id=f"d{n}", text=f"document number {n}")) for n in range(8)]
        sent.append(await rig.send(prices(2)))
        change = await bus.store(CHANGE, Change(table="t"), source="shop")
        for _ in range(40):
            assert numbers(await rig.found("fee", limit=3)) == {1}
            assert rig.retriever.report()["applied"] < sent[0]
            await asyncio.sleep(0.02)
        rig.words.broken = None
        await asyncio.gather(*(rig.applied(sequence) for sequence in sent))
        await until(lambda: rig.retriever.report()["applied"] == change)
        assert numbers(await rig.found("fee", limit=3)) == {2}
        assert all(one.error is None for one in rig.heard)


async def test_half_a_document_is_never_seen_and_is_finished_later(bus: Bus, tmp_path: Path) -> None:
    async with embedder(bus) as words:
        async with running(bus, tmp_path, url="embedded", words=words, embed_batch=2, retry_s=1.0) as rig:
            await rig.put(prices(1))
            rig.vectors.writes_left = 2
            sequence = await rig.send(prices(2, parts=8))
            await until(lambda: rig.vectors.writes_left == 0)
            assert numbers(await rig.found("fee", limit=20)) == {1}
        async with running(bus, tmp_path, url="embedded", words=words) as rig:
            await rig.applied(sequence)
            found = await rig.found("fee", limit=20)
            assert (len(found), numbers(found)) == (8, {2})
            assert await rig.vectors.count(CHUNKS) == 8


@pytest.mark.parametrize("written", range(5))
async def test_a_store_that_goes_down_between_any_two_writes_shows_no_half(
    bus: Bus, tmp_path: Path, written: int
) -> None:
    """Of eight chunks in four writes and the one that makes them the current version."""
    async with running(bus, tmp_path, embed_batch=2) as rig:
        first = await rig.put(prices(1))
        rig.vectors.writes_left = written
        sequence = await rig.send(prices(2, parts=8))
        await until(lambda: rig.vectors.refused > 1)
        found = await rig.found("fee", limit=20)
        assert (len(found), numbers(found)) == (3, {1})
        assert rig.retriever.report()["applied"] == first.sequence
        rig.vectors.writes_left = None
        await rig.applied(sequence)
        found = await rig.found("fee", limit=20)
        assert (len(found), numbers(found)) == (8, {2})
        assert await rig.vectors.count(CHUNKS) == 8


async def test_an_embedder_that_goes_away_in_the_middle_of_a_document_leaves_no_half(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, embed_batch=2) as rig:
        first = await rig.put(prices(1))
        rig.words.delay_s = 0.1
        sequence = await rig.send(prices(2, parts=8))
        await until(lambda: len(rig.words.texts) > 3 + 2)
        rig.words.broken = Failed("unavailable", "the model is loading")
        for _ in range(20):
            found = await rig.found("fee", limit=20)
            assert (len(found), numbers(found)) == (3, {1})
            assert rig.retriever.report()["applied"] == first.sequence
            await asyncio.sleep(0.01)
        rig.words.broken, rig.words.delay_s = None, 0.0
        event = await rig.applied(sequence)
        assert (event.error, event.chunks) == (None, 8)
        assert numbers(await rig.found("fee", limit=20)) == {2}
        assert await rig.vectors.count(CHUNKS) == 8


async def test_an_old_version_that_cannot_be_deleted_yet_is_not_seen_and_is_not_done(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        first = await rig.put(prices(1))
        rig.vectors.broken = {"delete"}
        sequence = await rig.send(prices(2))
        while numbers(await rig.found("fee", limit=20)) != {2}:
            await asyncio.sleep(0.005)
        assert rig.retriever.report()["applied"] == first.sequence
        assert await rig.vectors.count(CHUNKS) == 6
        assert not any(one.sequence == sequence for one in rig.heard)
        rig.vectors.broken = set()
        await rig.applied(sequence)
        assert await rig.vectors.count(CHUNKS) == 3


@pytest.mark.parametrize("broken", ["delete", "upsert"])
async def test_a_deletion_hides_at_once_and_is_retried_until_it_is_done(bus: Bus, tmp_path: Path, broken: str) -> None:
    async with running(bus, tmp_path) as rig:
        first = await rig.put(prices(1))
        rig.vectors.broken = {broken}
        sequence = await rig.send(Document(id="prices", op="delete"))
        await until(lambda: rig.retriever._library.hidden)
        for _ in range(20):
            assert await rig.found("fee") == []
            assert rig.retriever.report()["applied"] == first.sequence
            await asyncio.sleep(0.01)
        assert await rig.vectors.count(CHUNKS) == 3
        rig.vectors.broken = set()
        await rig.applied(sequence)
        assert await rig.vectors.count(CHUNKS) == 0
        assert rig.retriever._library.hidden == {}
        assert await rig.found("fee") == []


async def test_a_store_that_is_down_is_said_to_be_unavailable(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        rig.vectors.broken = {"search"}
        reply = await rig.ask("fee")
        assert isinstance(reply, Failure)
        assert (reply.code, reply.retry_after_ms) == ("unavailable", 1000)


async def test_a_document_that_the_embedder_refuses_is_given_up(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, attempts=3) as rig:
        await rig.put(prices(1))
        rig.words.broken = Failed("internal", "the model failed")
        event = await rig.put(prices(2))
        assert event.error == "it could not be indexed (internal)"
        rig.words.broken = None
        await until(lambda: rig.retriever.report()["applied"] == event.sequence)
        assert numbers(await rig.found("fee")) == {1}
        assert (await rig.put(prices(3))).error is None


async def test_another_model_never_mixes_in(bus: Bus, tmp_path: Path) -> None:
    async with embedder(bus) as words:
        async with running(bus, tmp_path, url="embedded", words=words) as rig:
            await rig.put(prices(1))
            words.model = "another"
            sequence = await rig.send(prices(2))
            await until(lambda: rig.retriever.report()["lag"] == 1)
            await asyncio.sleep(0.3)
            assert numbers(await rig.found("fee")) == {1}
            assert not any(one.sequence == sequence for one in rig.heard)
        with pytest.raises(StoreError, match="embedded by hashed-words and the embedder runs another"):
            async with running(bus, tmp_path, url="embedded", words=words):
                pass


async def test_a_backlog_is_taken_in_bounded_pieces_and_questions_pass_it(bus: Bus, tmp_path: Path) -> None:
    vectors = vectors_for("embedded", tmp_path)
    async with embedder(bus) as words:
        async with running(bus, tmp_path, vectors=vectors, words=words) as rig:
            await rig.put(prices(1))
        sent = 0
        for n in range(250):
            sent = await rig.send(Document(id=f"d{n}", text=f"# Heading {n}\n\nbacklog number {n}"))
        words.delay_s = 0.01
        most = 0
        vectors = vectors_for("embedded", tmp_path)
        async with running(bus, tmp_path, vectors=vectors, words=words, batch=16) as rig:
            words.broken = Failed("unavailable", "the model is loading")
            for _ in range(20):
                assert await rig.found("fee"), "nothing of the backlog goes on meanwhile"
            words.broken = None
            while rig.retriever.report()["lag"]:
                most = max(most, rig.retriever._intake.holding)
                assert await rig.found("fee")
            assert rig.retriever.report()["applied"] == sent
        assert most <= 16
        assert words.largest <= 64


def test_the_stand_in_is_what_the_tests_take_it_for() -> None:
    from indexed_words import hashed

    fee: Any = hashed("the fee")
    assert fee.shape == (DIM,)
    assert float(fee @ hashed("the fee is")) > 0.7 > float(fee @ hashed("something else"))
    assert Rig.__doc__
