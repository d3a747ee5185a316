"""When all of HASTEN_CHANGES is known to have been applied: at its end, however messages come late or were deleted."""

import time

from nats.aio.msg import Msg
from patience import until

from hasten.bus import Bus
from hasten.freshness import Freshness
from hasten.journal import WINDOW, Reader, ensure_stream, stream_state
from hasten.messages.change import CHANGE, STREAM, Change
from hasten.messages.retrieve import DOCUMENT, Document


async def change(bus: Bus, key: int) -> int:
    return await bus.store(CHANGE, Change(table="prices", key=key), source="shop")


async def test_what_was_read_before_the_streams_beginning_is_not_fresh(bus: Bus) -> None:
    await ensure_stream(bus)
    for key in range(10):
        await change(bus, key)
    await bus.js.purge_stream(STREAM, seq=6)
    freshness = Freshness(bus)
    await freshness.start()
    assert not freshness.fresh("acme", ["other:1"], 4)
    assert freshness.fresh("acme", ["other:1"], 5)
    await freshness.close()


async def test_an_emptied_stream_is_known_to_its_end(bus: Bus) -> None:
    await ensure_stream(bus)
    for key in range(4):
        await change(bus, key)
    await bus.js.purge_stream(STREAM)
    freshness = Freshness(bus)
    await freshness.start()
    assert freshness.applied == 4
    assert not freshness.fresh("acme", [], 3)
    assert freshness.fresh("acme", [], 4)
    await freshness.close()


async def test_a_stream_whose_last_messages_were_deleted_is_known_to_its_end(bus: Bus) -> None:
    await ensure_stream(bus)
    await change(bus, 1)
    for name in ("a", "b"):
        await bus.store(DOCUMENT, Document(id=name, text="x"), tenant="acme", collection="help")
    await bus.js.purge_stream(STREAM, subject=DOCUMENT.subject(tenant="acme", collection="help"))
    assert (await stream_state(bus)).messages == 1
    freshness = Freshness(bus)
    await freshness.start()
    assert freshness.applied == 3
    assert not freshness.fresh("acme", ["other:1"], 2), "what was deleted may have been about it"
    assert freshness.fresh("acme", ["other:1"], 3)
    assert await change(bus, 1) == 4
    await until(lambda: freshness.applied == 4)
    assert not freshness.fresh("acme", ["prices:1"], 3)
    await freshness.close()


async def test_a_running_reader_goes_on_behind_deleted_messages(bus: Bus) -> None:
    await ensure_stream(bus)
    seen: list[int] = []
    reader = Reader(bus, lambda entry: seen.append(entry.sequence))
    await reader.start()
    await change(bus, 1)
    await until(lambda: seen == [1])
    await bus.js.delete_consumer(STREAM, reader._consumer)
    await bus.store(DOCUMENT, Document(id="a", text="x"), tenant="acme", collection="help")
    await bus.js.purge_stream(STREAM, subject=DOCUMENT.subject(tenant="acme", collection="help"))
    behind = time.monotonic()
    await until(lambda: reader.confirmed_at > behind)
    assert (seen, reader.applied) == ([1], 2)
    await change(bus, 3)
    await until(lambda: seen == [1, 3])
    await reader.close()


def held_up(reader: Reader) -> list[Msg]:
    """Lets the messages of a running reader pile up here, and lets it confirm only when the test says so."""
    late: list[Msg] = []

    async def hold(msg: Msg) -> None:
        late.append(msg)

    assert reader._subscription is not None
    assert reader._task is not None
    reader._subscription._cb = hold
    reader._task.cancel()
    return late


async def test_a_message_on_its_way_is_not_taken_for_a_deleted_one(bus: Bus) -> None:
    await ensure_stream(bus)
    reader = Reader(bus, lambda entry: None)
    await reader.start()
    late = held_up(reader)
    before = time.monotonic()
    await change(bus, 1)
    await reader.confirm()
    assert (reader.applied, reader.confirmed_at < before) == (0, True)
    await until(lambda: late)
    await reader.confirm()
    assert (reader.applied, reader.confirmed_at < before) == (0, True)
    await reader._receive(late[0])
    await reader.confirm()
    assert (reader.applied, reader.confirmed_at > before) == (1, True)
    await reader.close()


async def test_an_end_that_was_seen_is_confirmed_when_it_is_reached_though_the_stream_has_moved_on(bus: Bus) -> None:
    """In a burst the reader is never at the very end of the stream, and still known to be less than a lease behind."""
    await ensure_stream(bus)
    reader = Reader(bus, lambda entry: None)
    await reader.start()
    late = held_up(reader)
    await change(bus, 1)
    before = time.monotonic()
    await reader.confirm()
    await change(bus, 2)
    await until(lambda: len(late) == 2)
    assert reader.confirmed_at < before
    after = time.monotonic()
    await reader._receive(late[0])
    assert before <= reader.confirmed_at < after
    await reader.close()


async def test_a_backlog_is_asked_for_in_parts(bus: Bus) -> None:
    """What the server may send at once is what a request of this process has to wait behind."""
    await ensure_stream(bus)
    reader = Reader(bus, lambda entry: None)
    await reader.start()
    late = held_up(reader)
    for key in range(2 * WINDOW):
        await change(bus, key)
    await until(lambda: len(late) >= WINDOW)
    await bus.flush()
    assert len(late) == WINDOW
    assert reader._subscription is not None
    reader._subscription._cb = reader._receive
    for msg in late:
        await reader._receive(msg)
    await until(lambda: reader.applied == 2 * WINDOW)
    await reader.close()


async def test_a_late_message_that_was_deleted_meanwhile_takes_nothing_back(bus: Bus) -> None:
    await ensure_stream(bus)
    freshness = Freshness(bus)
    await freshness.start()
    late = held_up(freshness.reader)
    await change(bus, 1)
    await change(bus, 2)
    await until(lambda: len(late) == 2)
    await bus.js.purge_stream(STREAM)
    await freshness.reader.confirm()
    assert freshness.applied == 2
    await freshness.reader._receive(late[0])
    assert freshness.applied == 2
    assert not freshness.table.fresh("acme", [], 1)
    assert freshness.table.fresh("acme", ["prices:1"], 2)
    await freshness.close()
