"""What cannot be read is written down once, without what it holds, and holds nothing up."""

import asyncio
import time
from typing import Any

import nats.js.errors
import pytest

from hasten import dead_letters
from hasten.bus import Bus
from hasten.changes.settings import Changes
from hasten.codec import decode
from hasten.dead_letters import DeadLetters, source_of
from hasten.freshness import Freshness
from hasten.journal import ensure_stream
from hasten.messages.change import DEAD_LETTER, DEAD_STREAM, DeadLetter

SINK = "shop.public.prices"
SOURCES = Changes(["shop.>"])


async def letters(bus: Bus, count: int) -> list[tuple[str, DeadLetter]]:
    """The first letters with their subjects, when there are as many."""
    found: list[tuple[str, DeadLetter]] = []
    deadline = time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < deadline, found
        try:
            msg: Any = await bus.js.get_msg(DEAD_STREAM, seq=len(found) + 1)
        except nats.js.errors.NotFoundError:
            await asyncio.sleep(0.01)
            continue
        found.append((msg.subject, decode(DeadLetter, msg.data)))
    return found


async def held(bus: Bus) -> int:
    return int((await bus.js.stream_info(DEAD_STREAM)).state.messages)


async def test_what_cannot_be_read_evicts_its_table_and_is_written_down_by_all_replicas_once(bus: Bus) -> None:
    replicas = [Freshness(bus, changes=SOURCES) for _ in range(3)]
    try:
        for one in replicas:
            await one.start()
        bad = await bus.store_raw(SINK, b'{"secret": 1}')
        worse = await bus.store_raw("hasten.v1.change.Crm.users", b"\xff secret")
        good = await bus.store_raw(SINK, b'{"id": 7}')
        found = {letter.sequence: (subject, letter) for subject, letter in await letters(bus, 2)}
        assert set(found) == {bad, worse}
        assert found[bad][0] == DEAD_LETTER.subject(source="shop")
        assert found[worse][0] == DEAD_LETTER.subject(source="crm")
        assert (found[bad][1].subject, found[bad][1].size, found[bad][1].concerns) == (SINK, 13, "tags")
        assert "rule" in found[bad][1].reason
        assert "secret" not in str(found)
        for one in replicas:
            while one.applied < good:
                await asyncio.sleep(0.005)
            assert one.table.last("acme", "prices:8") == bad
            assert one.table.last("acme", "users:1") == worse
            assert one.table.last("acme", "prices:7") == good
            assert one.table.fresh("acme", ["prices:8"], bad)
        late = Freshness(bus, changes=SOURCES)
        await late.start()
        await late.close()
        last = await bus.store_raw(SINK, b"[]")
        assert [one.sequence for _, one in await letters(bus, 3)][2] == last
        assert await held(bus) == 3
    finally:
        for one in replicas:
            await one.close()


async def test_a_letter_that_cannot_be_written_holds_nothing_up(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream's subjects belong to another stream, so the server refuses it."""
    monkeypatch.setattr(dead_letters, "PAUSE_S", 0.01)
    await bus.js.add_stream(name="OTHER", subjects=["hasten.v1.dead.>"], no_ack=True)
    fresh = Freshness(bus, changes=SOURCES)
    try:
        await fresh.start()
        for _ in range(20):
            await bus.store_raw(SINK, b"?")
        good = await bus.store_raw(SINK, b'{"id": 7}')
        while fresh.applied < good:
            await asyncio.sleep(0.005)
        assert fresh.table.last("acme", "prices:7") == good
    finally:
        await fresh.close()


async def test_a_flood_drops_letters_and_keeps_what_waits_bounded(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "WAITING", 20)
    await ensure_stream(bus)
    posted = DeadLetters(bus)
    for sequence in range(1, 100):
        posted.post(sequence, SINK, "why", 1)
    found = await letters(bus, 20)
    await posted.close()
    assert [letter.sequence for _, letter in found] == list(range(1, 21))
    assert await held(bus) == 20


async def test_letters_are_written_again_after_their_stream_was_deleted(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "PAUSE_S", 0.01)
    await ensure_stream(bus)
    posted = DeadLetters(bus)
    posted.post(1, SINK, "why", 1)
    await letters(bus, 1)
    await bus.js.delete_stream(DEAD_STREAM)
    posted.post(2, SINK, "why", 1)
    assert [letter.sequence for _, letter in await letters(bus, 1)] == [2]
    await posted.close()


@pytest.mark.parametrize(
    ("subject", "source"),
    [
        ("shop.public.prices", "shop"),
        ("hasten.v1.change.crm", "crm"),
        ("hasten.v1.change.Shop-1.public.prices", "shop-1"),
        ("hasten.v1.change._tenant.acme", "acme"),
        ("Ü b.x", "--b"),
        ("", "unknown"),
        ("x" * 100, "x" * 64),
    ],
)
def test_the_source_of_a_subject_can_be_part_of_another(subject: str, source: str) -> None:
    assert source_of(subject) == source
    DEAD_LETTER.subject(source=source)
