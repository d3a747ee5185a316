"""Rows become documents over a real NATS and a real store: in order, older ones never over newer ones."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from indexed_words import HashedWords
from nats.js.errors import NotFoundError
from patience import until
from retriever_rig import Rig, running

from hasten.bus import Bus
from hasten.changes import DocumentRule, Rules, TableRule
from hasten.changes.settings import Changes
from hasten.codec import decode
from hasten.messages.change import DEAD_STREAM, DeadLetter
from hasten.messages.failure import Failed
from hasten.messages.retrieve import Document, Retrieved
from hasten.vectors.store import Where

SUBJECT = "shop.public.articles"
MARKER = "__debezium_unavailable_value"
STORES = pytest.mark.parametrize("url", [":memory:", "embedded"])
CHANGES = Changes(
    ["shop.>"],
    Rules(
        [
            TableRule(
                table="public.articles",
                key=["id"],
                document=DocumentRule(collection="help", tenant="acme", id="a{id}", title="{title}", text="{body}"),
            )
        ]
    ),
)


def event(op: str, key: int = 7, body: str = "", lsn: int | None = None, **row: Any) -> bytes:
    source: dict[str, Any] = {"connector": "postgresql", "name": "shop", "schema": "public", "table": "articles"}
    source |= {} if lsn is None else {"lsn": lsn, "ts_ms": lsn}
    image = {"id": key, "title": "", "body": body, **row}
    before, after = ({"id": key}, None) if op == "d" else (None, None if op == "t" else image)
    return msgspec.json.encode({"op": op, "before": before, "after": after, "source": source})


async def sent(rig: Rig, *messages: bytes, subject: str = SUBJECT) -> int:
    """Stores messages and waits until all before the last has been applied; returns its sequence."""
    for data in messages:
        last = await rig.bus.store_raw(subject, data)
    await until(lambda: rig.retriever.report()["applied"] >= last)
    return last


async def texts(rig: Rig, query: str = "fee") -> list[str]:
    return sorted(one.text for one in await rig.found(query))


async def letter(bus: Bus, number: int = 1) -> DeadLetter:
    """A letter, when it is there."""
    while True:
        try:
            found: DeadLetter = decode(DeadLetter, (await bus.js.get_msg(DEAD_STREAM, seq=number)).data or b"")
            return found
        except NotFoundError:
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def words(bus: Bus) -> AsyncIterator[HashedWords]:
    made = HashedWords(bus)
    await made.start()
    yield made
    await made.close()


@STORES
async def test_rows_become_documents_and_go_with_them(bus: Bus, tmp_path: Path, url: str) -> None:
    async with running(bus, tmp_path, url=url, changes=CHANGES) as rig:
        await sent(rig, event("r", 7, "The fee is 9 euro.", title="Fees"), event("c", 8, "The fee of boats."))
        reply = await rig.ask("fee euro")
        assert isinstance(reply, Retrieved)
        best = reply.passages[0]
        assert (best.id, best.title, best.text) == ("help/a7#0", "Fees", "The fee is 9 euro.")
        assert best.tags == ["document:help/a7", "collection:help", "articles:7"]
        last = await sent(rig, event("u", 7, "The fee is 11 euro."))
        reply = await rig.ask("fee euro")
        assert isinstance(reply, Retrieved)
        assert reply.read_seq >= last
        assert [one.text for one in reply.passages] == ["The fee is 11 euro.", "The fee of boats."]
        await sent(rig, event("d", 7))
        assert await texts(rig) == ["The fee of boats."]
        await sent(rig, b"{", b"", event("u", 8, "The fee of ships."), subject=SUBJECT)
        assert await texts(rig) == ["The fee of ships."]
        assert await rig.found("fee", tenant="globex") == []


@STORES
async def test_an_emptied_table_takes_its_documents_and_no_others(bus: Bus, tmp_path: Path, url: str) -> None:
    async with running(bus, tmp_path, url=url, changes=CHANGES) as rig:
        await rig.put(Document(id="own", text="The fee by hand."))
        await rig.put(Document(id="a9", text="The fee elsewhere."), collection="other")
        rows = [event("c", key, f"The fee {key}.") for key in range(20)]
        await sent(rig, *rows, event("t"), event("c", 99, "The fee after."))
        assert await texts(rig) == ["The fee after.", "The fee by hand."]
        assert [one.text for one in await rig.found("fee", knowledge=["other"])] == ["The fee elsewhere."]
        await sent(rig, event("t"))
        assert await texts(rig) == ["The fee by hand."]
        assert await rig.vectors.count(Where(equal={"origin": "public.articles", "kind": "chunk"})) == 0


async def test_a_row_from_before_the_table_was_emptied_does_not_come_back(bus: Bus, tmp_path: Path) -> None:
    """Its embedding takes longer than the emptying."""
    words = HashedWords(bus)
    await words.start()
    async with running(bus, tmp_path, changes=CHANGES, words=words) as rig:
        held = asyncio.Event()
        inner = rig.retriever._ingestion._writer._embedding.many

        async def slow(tenant: str, given: list[str], spans: list[list[tuple[int, int]]]) -> Any:
            await held.wait()
            return await inner(tenant, given, spans)

        rig.retriever._ingestion._writer._embedding.many = slow  # type: ignore[method-assign, assignment]
        await bus.store_raw(SUBJECT, event("c", 7, "The fee of old."))
        emptied = await bus.store_raw(SUBJECT, event("t"))
        while not await rig.vectors.count(Where(equal={"kind": "floor"})):
            await asyncio.sleep(0.005)
        held.set()
        await until(lambda: rig.retriever.report()["applied"] >= emptied)
        assert await texts(rig) == []
        assert await rig.vectors.count(Where(equal={"kind": "chunk"})) == 0
    await words.close()


async def test_what_comes_again_or_late_replaces_nothing_newer(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, changes=CHANGES) as rig:
        old, new = event("u", 7, "The fee is 9.", lsn=100), event("u", 7, "The fee is 11.", lsn=200)
        await sent(rig, old, new)
        embedded = len(rig.words.texts)
        await sent(rig, old)
        assert await texts(rig) == ["The fee is 11."]
        await sent(rig, new)
        assert await texts(rig) == ["The fee is 11."]
        assert len(rig.words.texts) == embedded, "neither was embedded"
        await asyncio.gather(*(sent(rig, old, new, old) for _ in range(5)))
        assert await texts(rig) == ["The fee is 11."]
        await sent(rig, event("d", 7, lsn=300), old)
        assert await texts(rig) == []
        await sent(rig, b"", subject="hasten.v1.change.shop.public.articles")
        await bus.store_raw(SUBJECT, b"", headers={"Hasten-Key": '{"id": 7}'})
        await sent(rig, new)
        assert await texts(rig) == [], "the tombstone does not hide how far the delete was"
        await sent(rig, event("c", 7, "The fee is 13.", lsn=400))
        assert await texts(rig) == ["The fee is 13."]


async def test_a_restored_database_counts_anew_and_is_believed(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, changes=CHANGES) as rig:
        await sent(rig, event("u", 7, "The fee is 9.", lsn=1000))
        later = msgspec.json.decode(event("u", 7, "The fee is 11.", lsn=100))
        later["source"]["ts_ms"] = 2000
        await sent(rig, msgspec.json.encode(later))
        assert await texts(rig) == ["The fee is 11."]


async def test_a_column_that_was_not_sent_keeps_its_text(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, changes=CHANGES) as rig:
        await sent(rig, event("c", 7, "The fee is 9.", title="Old"), event("u", 7, MARKER, title="New"))
        (found,) = await rig.found("fee")
        assert (found.title, found.text) == ("New", "The fee is 9.")
        await sent(rig, event("u", 7, MARKER, title="Newer"), event("u", 7, MARKER, title="Newest"))
        (found,) = await rig.found("fee")
        assert (found.title, found.text) == ("Newest", "The fee is 9.")


async def test_a_burst_of_partial_rows_ends_as_if_they_came_one_by_one(bus: Bus, tmp_path: Path) -> None:
    """Each is completed from the one before it, although the others of the burst are applied side by side."""
    async with running(bus, tmp_path, changes=CHANGES) as rig:
        bodies = {key: f"The fee of {key}." for key in range(4)}
        for round_ in range(12):
            for key in bodies:
                whole = (round_ + key) % 3 == 0
                bodies[key] = f"The fee of {key} since {round_}." if whole else bodies[key]
                start = event("c" if round_ == 0 else "u", key, bodies[key] if whole or not round_ else MARKER)
                last = await bus.store_raw(SUBJECT, start)
        await until(lambda: rig.retriever.report()["applied"] >= last)
        assert await texts(rig) == sorted(bodies.values())
        assert not any(one.error for one in rig.heard)


async def test_a_row_that_cannot_be_completed_is_a_dead_letter_and_keeps_the_old_document(
    bus: Bus, tmp_path: Path
) -> None:
    async with running(bus, tmp_path, changes=CHANGES) as rig:
        await rig.put(Document(id="a7", text="The fee by hand."))
        at = await sent(rig, event("u", 7, MARKER, title="secret"))
        found = await letter(bus)
        assert (found.sequence, found.subject, found.concerns) == (at, SUBJECT, "document")
        assert "body" in found.reason
        assert "secret" not in found.reason
        assert await texts(rig) == ["The fee by hand."]
        (refused,) = [one for one in rig.heard if one.error]
        assert (refused.sequence, refused.id) == (at, "a7")
        keyless = await sent(rig, msgspec.json.encode({"table": "articles"}), subject="hasten.v1.change.app")
        assert (await letter(bus, 2)).sequence == keyless
        await sent(rig, event("u", 7, "The fee is 9."))
        assert await texts(rig) == ["The fee is 9."]


async def test_a_row_that_cannot_be_indexed_any_more_leaves_no_older_text(bus: Bus, tmp_path: Path) -> None:
    """Else every answer that is made anew is made of what the row said before."""
    async with running(bus, tmp_path, changes=CHANGES, max_chunks=3) as rig:
        unfit = (event("u", 7, "The fee is 15.", title="x" * 20_000), event("u", 7, "The fee is 15 euros.\n\n" * 4000))
        for number, data in enumerate(unfit, start=1):
            await sent(rig, event("u", 7, "The fee is 9."))
            assert await texts(rig) == ["The fee is 9."]
            at = await sent(rig, data)
            assert await texts(rig) == []
            found = await letter(bus, number)
            assert (found.sequence, found.concerns) == (at, "document")
        await sent(rig, event("u", 7, "The fee is 16."))
        assert await texts(rig) == ["The fee is 16."]


async def test_a_row_that_the_embedder_never_takes_leaves_no_older_text(bus: Bus, tmp_path: Path) -> None:
    async with words(bus) as embedder, running(bus, tmp_path, changes=CHANGES, words=embedder, attempts=2) as rig:
        await sent(rig, event("u", 7, "The fee is 9."))
        embedder.broken = Failed("internal", "broken")
        await sent(rig, event("u", 7, "The fee is 15."))
        embedder.broken = None
        assert (await letter(bus)).reason == "it could not be indexed (internal)"
        assert await texts(rig) == []


async def test_a_moved_key_moves_its_document(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, changes=CHANGES) as rig:
        await sent(rig, event("c", 7, "The fee is 9."))
        moved = msgspec.json.decode(event("u", 8, "The fee is 9 still."))
        moved["before"] = {"id": 7}
        at = await sent(rig, msgspec.json.encode(moved))
        assert [one.document for one in await rig.found("fee")] == ["a8"]
        assert {(one.id, one.op) for one in rig.heard if one.sequence == at} == {("a7", "delete"), ("a8", "upsert")}
