"""HASTEN_CHANGES against a real server: made once, read in order, and read on after all that can interrupt it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from nats.errors import OutboundBufferLimitError
from patience import until

from hasten.bus import Bus
from hasten.freshness import Freshness
from hasten.journal import POLL_S, WINDOW, Entry, Reader, ensure_stream, stream_state
from hasten.messages.change import CHANGE, STREAM, Change
from hasten.messages.failure import Failed
from hasten.messages.retrieve import DOCUMENT, Document
from hasten.nats_server import NatsServer
from hasten.subjects import covers
from hasten.telemetry import REGISTRY


async def change(bus: Bus, key: int) -> int:
    return await bus.store(CHANGE, Change(table="prices", key=key), source="shop")


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
    freshness = Freshness(bus, lease_s=0.5, kind="lonely")

    def behind_s() -> float | None:
        return REGISTRY.get_sample_value("hasten_changes_behind_seconds", {"kind": "lonely"})

    await freshness.start()
    assert freshness.fresh("acme", ["prices:7"], 0)
    await server.stop(kill=True)
    await until(lambda: not freshness.leased)
    assert not freshness.fresh("acme", ["prices:7"], 0)
    await until(lambda: (behind_s() or 0.0) > 1.0)
    await freshness.close()
    assert behind_s() == 0
    await bus.close()


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
