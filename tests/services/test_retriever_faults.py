"""The retriever when things go wrong: no half of a document, no old version again, nothing lost, deleted is deleted."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from indexed_words import DIM, HashedWords
from patience import until
from retriever_rig import Rig, running, vectors_for

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.freshness import Freshness
from hasten.messages.change import CHANGE, STREAM, Change
from hasten.messages.failure import Failed, Failure
from hasten.messages.retrieve import RETRIEVE, Document, Passage, Retrieve
from hasten.nats_server import NatsServer
from hasten.retriever.intake import DURABLE
from hasten.retriever.records import Key
from hasten.retriever.rows import Mail
from hasten.retriever.service import Retriever
from hasten.retriever.settings import Settings
from hasten.vectors.store import StoreError, Where

CHUNKS = Where(equal={"kind": "chunk"})


def prices(number: int, parts: int = 3) -> Document:
    """A version of one document that says its number in every section."""
    return Document(
        id="prices", text="\n\n".join(f"# Part {part}\n\nThe fee is {number} euro." for part in range(parts))
    )


def numbers(found: list[Passage]) -> set[int]:
    return {int(one.text.split("fee is ")[1].split()[0]) for one in found}


@asynccontextmanager
async def embedder(bus: Bus) -> AsyncIterator[HashedWords]:
    words = HashedWords(bus)
    await words.start()
    yield words
    await words.close()


async def test_readers_see_one_whole_version_at_every_moment(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, url="embedded") as rig:
        await rig.put(prices(0))
        last = 0
        done = False

        async def read() -> int:
            nonlocal last
            reads = 0
            while not done:
                known = last
                found = await rig.found("fee euro", limit=20)
                seen = numbers(found)
                assert len(found) == 3, "neither, or only a part"
                assert len(seen) == 1, "both"
                assert seen.pop() >= known, "an older version than before the question"
                last = max(last, *numbers(found))
                reads += 1
            return reads

        readers = [asyncio.create_task(read()) for _ in range(3)]
        for number in range(1, 40):
            await rig.send(prices(number))
            await asyncio.sleep(0.003 * (number % 4))
        await until(lambda: last == 39 or any(reader.done() for reader in readers))
        done = True
        assert all(reads > 10 for reads in await asyncio.gather(*readers))
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


async def test_a_retriever_waits_for_its_embedder_at_the_start(bus: Bus, tmp_path: Path) -> None:
    retriever = Retriever(Settings(), bus, vectors_for(":memory:", tmp_path))
    starting = asyncio.create_task(retriever.start())
    await asyncio.sleep(0.3)
    assert not starting.done()
    async with embedder(bus):
        await starting
        await retriever.drain()
        await retriever.close()


async def test_a_restart_goes_on_where_it_stopped(bus: Bus, tmp_path: Path) -> None:
    async with embedder(bus) as words:
        async with running(bus, tmp_path, url="embedded", words=words) as rig:
            await rig.put(Document(id="a", text="the first fee"))
        words.texts.clear()
        sent = [await rig.send(Document(id=name, text=f"the {name} fee")) for name in ("b", "c")]
        change = await bus.store(CHANGE, Change(table="t"), source="shop")
        async with running(bus, tmp_path, url="embedded", words=words) as rig:
            await asyncio.gather(*(rig.applied(sequence) for sequence in sent))
            await until(lambda: rig.retriever.report()["applied"] == change)
            assert {one.document for one in await rig.found("fee")} == {"a", "b", "c"}
            assert not any("first" in text for text in words.texts)


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


async def test_replicas_share_the_work_and_one_that_dies_loses_nothing(bus: Bus, tmp_path: Path) -> None:
    vectors = vectors_for(":memory:", tmp_path, keep=True)
    async with embedder(bus) as words:
        words.delay_s = 0.02
        async with running(bus, tmp_path, vectors=vectors, words=words, ack_wait_s=2.0) as one:
            other = Retriever(Settings(batch=4, ack_wait_s=2.0), bus, vectors)
            await other.start()
            sent = [await one.send(Document(id=f"d{n}", text=f"fee number {n}")) for n in range(60)]
            await until(lambda: len(one.heard) > 15 and other._intake.holding)
            await other.close()
            await until(lambda: one.retriever.report()["applied"] >= sent[-1])
            assert {hit.document for hit in await one.found("fee", limit=100)} == {f"d{n}" for n in range(60)}
    await vectors.inner.close()


async def test_what_was_read_while_a_purged_version_was_worked_on_is_stale_when_it_is_there(
    bus: Bus, tmp_path: Path
) -> None:
    """The purge moves the acknowledgement floor, and the other replica takes the version for applied."""
    vectors = vectors_for(":memory:", tmp_path, keep=True)
    view = Freshness(bus)
    await view.start()
    async with embedder(bus) as words, running(bus, tmp_path, vectors=vectors, words=words) as one:
        other = Retriever(Settings(poll_s=0.05), bus, vectors)
        await other.start()
        await one.put(prices(1))
        words.delay_s = 0.5
        sequence = await one.send(prices(2))
        await until(lambda: one.retriever._intake.holding or other._intake.holding)
        await bus.js.purge_stream(STREAM)
        await until(lambda: sequence in (one.retriever._intake.applied, other._intake.applied))
        assert numbers(await one.found("fee")) == {1}
        tags = ["document:help/prices", "collection:help"]
        await one.applied(sequence)
        assert numbers(await one.found("fee")) == {2}
        await until(lambda: view.applied > sequence)
        assert not view.table.fresh("acme", tags[:1], sequence)
        assert not view.table.fresh("acme", tags[1:], sequence)
        await other.close()
    await view.close()
    await vectors.inner.close()


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


async def test_a_lost_store_is_filled_again_from_the_stream(bus: Bus, tmp_path: Path) -> None:
    async with embedder(bus) as words:
        async with running(bus, tmp_path / "one", url="embedded", words=words) as rig:
            await rig.put(prices(1))
            gone = await rig.put(Document(id="gone", text="fee"))
            last = await rig.put(Document(id="gone", op="delete"))
        async with running(bus, tmp_path / "two", url="embedded", words=words) as rig:
            await until(lambda: rig.retriever.report()["applied"] == last.sequence)
            assert gone.error is None
            assert [one.document for one in await rig.found("fee", limit=20)] == ["prices"] * 3


async def test_a_stream_made_anew_counts_again_and_keeps_what_is_indexed(bus: Bus, tmp_path: Path) -> None:
    async with embedder(bus) as words:
        async with running(bus, tmp_path, url="embedded", words=words) as rig:
            for number in range(5):
                await rig.put(prices(number))
            await rig.put(Document(id="kept", text="another fee"))
        await bus.js.delete_stream(STREAM)
        async with running(bus, tmp_path, url="embedded", words=words) as rig:
            assert {one.document for one in await rig.found("fee", limit=20)} == {"prices", "kept"}
            event = await rig.put(prices(77))
            assert event.sequence == 1
            assert numbers([one for one in await rig.found("fee", limit=20) if one.document == "prices"]) == {77}


async def test_a_consumer_that_vanished_is_made_again(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        await rig.put(prices(1))
        await bus.js.delete_consumer(STREAM, DURABLE)
        event = await rig.put(prices(2))
        await until(lambda: rig.retriever.report()["applied"] == event.sequence)
        assert numbers(await rig.found("fee")) == {2}


async def test_a_server_that_restarts_in_the_middle_loses_nothing(nats_server: NatsServer, tmp_path: Path) -> None:
    bus = await Bus.connect(nats_server.url)
    async with running(bus, tmp_path, ack_wait_s=2.0, embed_timeout_s=3.0) as rig:
        rig.words.delay_s = 0.05
        sent = [await rig.send(Document(id=f"d{n}", text=f"fee number {n}")) for n in range(30)]
        await until(lambda: len(rig.heard) > 3)
        await nats_server.stop(kill=True)
        await asyncio.sleep(0.2)
        await nats_server.start()
        await until(lambda: rig.retriever.report()["applied"] >= sent[-1])
        assert {one.document for one in await rig.found("fee", limit=50)} == {f"d{n}" for n in range(30)}
    await bus.close()


async def test_a_backlog_is_taken_in_bounded_pieces_and_questions_pass_it(bus: Bus, tmp_path: Path) -> None:
    vectors = vectors_for("embedded", tmp_path)
    async with embedder(bus) as words:
        async with running(bus, tmp_path, vectors=vectors, words=words) as rig:
            await rig.put(prices(1))
        sent = 0
        for n in range(250):
            sent = await rig.send(Document(id=f"d{n}", text=f"# Heading {n}\n\nbacklog number {n}"))
        words.delay_s = 0.01
        most, asked = 0, 0
        vectors = vectors_for("embedded", tmp_path)
        async with running(bus, tmp_path, vectors=vectors, words=words, batch=16) as rig:
            while rig.retriever.report()["lag"]:
                most = max(most, rig.retriever._intake.holding)
                assert isinstance(await rig.found("fee"), list)
                asked += 1
            assert rig.retriever.report()["applied"] == sent
        assert most <= 16
        assert asked > 50
        assert words.largest <= 64


async def test_a_drain_finishes_what_has_begun_and_gives_the_rest_back(bus: Bus, tmp_path: Path) -> None:
    vectors = vectors_for(":memory:", tmp_path, keep=True)
    async with embedder(bus) as words:
        words.delay_s = 0.1
        async with running(bus, tmp_path, vectors=vectors, words=words, parallel=1) as rig:
            sent = [await rig.send(Document(id=f"d{n}", text=f"fee {n}")) for n in range(12)]
            await until(lambda: rig.heard)
        drained = len(rig.heard)
        assert 0 < drained < 12
        words.delay_s = 0.0
        async with running(bus, tmp_path, vectors=vectors, words=words) as rig:
            await until(lambda: rig.retriever.report()["applied"] == sent[-1])
            await until(lambda: len(rig.heard) == 12 - drained)
    await vectors.inner.close()


async def test_closing_a_retriever_that_never_started_is_quiet(bus: Bus, tmp_path: Path) -> None:
    await Retriever(Settings(), bus, vectors_for("embedded", tmp_path)).close()
    retriever = Retriever(Settings(), bus, vectors_for(":memory:", tmp_path))
    starting = asyncio.create_task(retriever.start())
    await asyncio.sleep(0.05)
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    await retriever.close()
    ask = Retrieve(query="fee", knowledge=["help"])
    reply = await bus.request(RETRIEVE, ask, tenant="acme", deadline_ms=now_ms() + 2000)
    assert (type(reply), reply.code) == (Failure, "unavailable"), "neither of them listens any more"
    left = [task for task in asyncio.all_tasks() if "Retriever" in getattr(task.get_coro(), "__qualname__", "")]
    assert left == []


def test_the_stand_in_is_what_the_tests_take_it_for() -> None:
    from indexed_words import hashed

    fee: Any = hashed("the fee")
    assert fee.shape == (DIM,)
    assert float(fee @ hashed("the fee is")) > 0.7 > float(fee @ hashed("something else"))
    assert Rig.__doc__
