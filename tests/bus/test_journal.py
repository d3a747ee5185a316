"""HASTEN_CHANGES against a real server: made once, read in order, and read on after all that can interrupt it."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from nats.aio.msg import Msg
from nats.errors import OutboundBufferLimitError

from hasten.bus import Bus
from hasten.freshness import Freshness
from hasten.journal import POLL_S, WINDOW, Entry, Reader, covers, ensure_stream, stream_state
from hasten.messages.change import CHANGE, STREAM, Change
from hasten.messages.failure import Failed
from hasten.messages.retrieve import DOCUMENT, Document
from hasten.nats_server import NatsServer


async def change(bus: Bus, key: int) -> int:
    return await bus.store(CHANGE, Change(table="prices", key=key), source="shop")


async def until(condition: Any, timeout_s: float = 20) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


async def test_many_processes_make_the_stream_at_once_and_sources_are_added(nats_server: NatsServer, bus: Bus) -> None:
    others = [await Bus.connect(nats_server.url) for _ in range(3)]
    await asyncio.gather(*(ensure_stream(one) for one in (bus, *others)))
    await ensure_stream(bus, ["shop.>"])
    await ensure_stream(others[0])
    config = (await bus.js.stream_info(STREAM)).config
    assert set(config.subjects or []) == {"hasten.v1.change.>", "hasten.v1.document.>", "shop.>"}
    assert await bus.store_raw("shop.public.prices", b"{}") == 1
    for other in others:
        await other.close()


async def test_a_source_may_be_named_twice_and_may_cover_another(bus: Bus) -> None:
    """Of one service or of several: a wider one takes the place of the others, so that a config can be widened."""
    await ensure_stream(bus, ["shop.public.>", "shop.public.>", "shop.public.prices"])
    await ensure_stream(bus, ["shop.>"])
    await ensure_stream(bus, ["shop.*.prices"])
    subjects = (await bus.js.stream_info(STREAM)).config.subjects
    assert set(subjects or []) == {"hasten.v1.change.>", "hasten.v1.document.>", "shop.>"}


async def test_sources_that_no_stream_can_have_are_one_sentence(bus: Bus) -> None:
    with pytest.raises(Failed) as refused:
        await ensure_stream(bus, ["shop.*.prices", "shop.public.*"])
    assert "overlap" in refused.value.failure.detail


@pytest.mark.parametrize(
    ("wide", "narrow", "does"),
    [
        ("shop.>", "shop.public.prices", True),
        ("shop.>", "shop.>", True),
        ("shop.>", "shop.public.>", True),
        ("shop.>", "shop", False),
        ("shop.*", "shop.>", False),
        ("shop.*.>", "shop.>", False),
        ("shop.*.>", "shop.public.>", True),
        ("shop.*.>", "shop.public", False),
        ("shop.*", "shop.prices", True),
        ("shop.prices", "shop.*", False),
        ("shop.*.prices", "shop.public.*", False),
        ("shopping.>", "shop.prices", False),
    ],
)
def test_which_subjects_cover_which(wide: str, narrow: str, does: bool) -> None:
    assert covers(wide, narrow) == does


async def test_changes_and_documents_share_one_sequence(bus: Bus) -> None:
    await ensure_stream(bus)
    first = await change(bus, 1)
    second = await bus.store(DOCUMENT, Document(id="d1", text="x"), tenant="acme", collection="help")
    assert (first, second) == (1, 2)


async def test_a_reader_gets_the_past_and_then_what_comes(bus: Bus) -> None:
    await ensure_stream(bus)
    seen: list[int] = []

    def apply(entry: Entry) -> None:
        seen.append(entry.sequence)

    for key in range(50):
        await change(bus, key)
    reader = Reader(bus, apply, start=11)
    await reader.start()
    assert seen == list(range(11, 51))
    await change(bus, 99)
    await until(lambda: reader.applied == 51)
    await reader.close()
    await change(bus, 100)
    await asyncio.sleep(0.2)
    assert seen == list(range(11, 52))


async def test_a_reader_whose_consumer_disappears_goes_on_without_a_gap(bus: Bus) -> None:
    await ensure_stream(bus)
    seen: list[int] = []
    reader = Reader(bus, lambda entry: seen.append(entry.sequence))
    await reader.start()
    await change(bus, 1)
    await until(lambda: seen == [1])
    await bus.js.delete_consumer(STREAM, reader._consumer)
    for key in range(2, 12):
        await change(bus, key)
    await until(lambda: len(seen) == 11)
    assert seen == list(range(1, 12))
    assert reader.resets == 1
    await reader.close()


async def test_one_message_that_cannot_be_applied_does_not_stop_the_rest(bus: Bus) -> None:
    await ensure_stream(bus)
    seen: list[int] = []

    def apply(entry: Entry) -> None:
        if entry.sequence == 2:
            raise ValueError("a canary that must not be logged")
        seen.append(entry.sequence)

    reader = Reader(bus, apply)
    await reader.start()
    for key in range(3):
        await change(bus, key)
    await until(lambda: reader.applied == 3)
    assert seen == [1, 3]
    await reader.close()


async def test_a_message_is_applied_though_the_next_ones_cannot_be_asked_for(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full buffer of a connection that is lost: what is here already must not be taken for applied unread."""
    await ensure_stream(bus)
    seen: list[int] = []
    reader = Reader(bus, lambda entry: seen.append(entry.sequence))
    await reader.start()
    publish = bus.client.publish

    async def full(subject: str, *rest: Any, **more: Any) -> None:
        if ".CONSUMER.MSG.NEXT." in subject:
            raise OutboundBufferLimitError
        await publish(subject, *rest, **more)

    monkeypatch.setattr(bus.client, "publish", full)
    for key in range(WINDOW):
        await change(bus, key)
    await until(lambda: reader.applied == WINDOW)
    monkeypatch.undo()
    await change(bus, WINDOW)
    await until(lambda: reader.applied == WINDOW + 1)
    assert seen == list(range(1, WINDOW + 2))
    await reader.close()


async def test_what_was_read_before_a_message_that_fails_is_not_fresh(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = Freshness(bus)
    await fresh.start()
    before = await change(bus, 1)

    def fail(*_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(fresh._events, "read", fail)
    failed = await change(bus, 2)
    await until(lambda: fresh.applied == failed)
    assert not fresh.fresh("acme", ["prices:2"], before)
    assert fresh.fresh("acme", ["prices:2"], failed)
    await fresh.close()


async def test_a_reader_reads_on_after_the_server_was_killed(tmp_path: Path) -> None:
    server = await NatsServer(tmp_path).start()
    bus = await Bus.connect(server.url)
    await ensure_stream(bus)
    seen: list[int] = []
    reader = Reader(bus, lambda entry: seen.append(entry.sequence))
    await reader.start()
    await change(bus, 1)
    await until(lambda: seen == [1])
    await server.stop(kill=True)
    confirmed = reader.confirmed_at
    await asyncio.sleep(0.6)
    assert reader.confirmed_at <= confirmed + 0.3
    again = await NatsServer(tmp_path, port=server.port).start()
    await until(lambda: bus.connected)
    await change(bus, 2)
    await until(lambda: seen == [1, 2])
    await until(lambda: reader.confirmed_at > confirmed + 0.3)
    await reader.close()
    await bus.close()
    await again.stop()


async def test_a_replica_without_nats_loses_its_lease(tmp_path: Path) -> None:
    server = await NatsServer(tmp_path).start()
    bus = await Bus.connect(server.url)
    freshness = Freshness(bus, lease_s=0.5)
    await freshness.start()
    assert freshness.fresh("acme", ["prices:7"], 0)
    await server.stop(kill=True)
    await until(lambda: not freshness.leased)
    assert not freshness.fresh("acme", ["prices:7"], 0)
    await freshness.close()
    await bus.close()


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


async def test_without_the_stream_there_is_one_sentence(bus: Bus) -> None:
    reader = Reader(bus, lambda entry: None)
    with pytest.raises(Failed, match=STREAM) as caught:
        await reader.start()
    assert caught.value.failure.code == "unavailable"
    with pytest.raises(Failed, match=STREAM) as caught:
        await stream_state(bus)
    assert caught.value.failure.code == "unavailable"
    await reader.close()


async def test_jetstream_that_is_switched_off_is_one_sentence(tmp_path: Path) -> None:
    server = await NatsServer(tmp_path, config="accounts { A { users: [ {user: a, password: b} ] } }").start()
    bus = await Bus.connect(f"nats://a:b@127.0.0.1:{server.port}")
    with pytest.raises(Failed, match=STREAM):
        await ensure_stream(bus)
    await bus.close()
    await server.stop()


async def test_a_reader_whose_task_is_cancelled_in_the_middle_of_a_question_ends(bus: Bus) -> None:
    """Whoever ends the loop without closing anything cancels its tasks, at any moment, and waits for them."""
    await ensure_stream(bus)
    for delay_s in (0.0, 0.001, 0.002, 0.003):
        reader = Reader(bus, lambda entry: None)
        await reader.start()
        task = reader._task
        assert task is not None
        await asyncio.sleep(POLL_S + delay_s)
        task.cancel()
        async with asyncio.timeout(20):
            await asyncio.wait({task})
        await reader.close()
