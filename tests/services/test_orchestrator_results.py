"""What the orchestrator tells routers: each attempt at a worker, also those that another one made up for."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from patience import until
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.codec import decode
from hasten.messages.attempt import ATTEMPTED, Attempted
from hasten.messages.chat import CHAT, Chunk, Done
from hasten.messages.failure import Failed
from hasten.nats_server import NatsServer
from hasten.orchestrator.service import build
from hasten.orchestrator.settings import Settings

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "When does the tide rise?"}]}


@pytest_asyncio.fixture
async def peers(bus: Bus) -> AsyncIterator[Scripted]:
    made = Scripted(bus)
    await made.start()
    orchestrator = build(Settings(again_s=0), bus)
    await orchestrator.start()
    yield made
    await orchestrator.drain()
    await orchestrator.close()
    await made.close()


async def ask(bus: Bus, **options: Any) -> list[Any]:
    stream = await bus.stream(CHAT, {**ASK, **options}, tenant="acme")
    return [event async for event in stream]


@pytest_asyncio.fixture
async def told(bus: Bus) -> list[Attempted]:
    found: list[Attempted] = []

    async def hear(msg: Any) -> None:
        assert ATTEMPTED.parse(msg.subject) == {"slug": "m"}
        found.append(decode(Attempted, msg.data))

    await bus.subscribe(ATTEMPTED.pattern, hear)
    await bus.flush()
    return found


async def test_an_answer_is_an_attempt_and_a_hit_is_none(bus: Bus, peers: Scripted, told: list[Attempted]) -> None:
    for _ in range(2):
        assert isinstance((await ask(bus))[-1], Done)
    await ask(bus, cache={"mode": "off"})
    await until(lambda: len(told) == 2)
    first, second = told
    assert (first.outcome, first.worker, first.seq, second.seq) == ("done", "w1", 1, 2)
    assert 0 < first.ttft_ms <= first.total_ms
    assert first.source == second.source
    assert first.flight != second.flight


async def test_a_failure_that_another_worker_made_up_for_is_told(
    bus: Bus, peers: Scripted, told: list[Attempted]
) -> None:
    """Else a model that fails fast and always looks as if it had never been asked."""

    async def fails(*_: Any) -> None:
        raise Failed("upstream", "out of order")

    peers.broken["w1"] = fails
    events = await ask(bus)
    assert isinstance(events[-1], Done)
    await until(lambda: len(told) == 2)
    assert [(one.worker, one.outcome) for one in told] == [("w1", "upstream"), ("w2", "done")]
    assert told[0].ttft_ms == 0
    assert told[0].flight == told[1].flight


async def test_a_caller_who_leaves_is_told_of_with_the_time_that_was_waited(
    bus: Bus, peers: Scripted, told: list[Attempted]
) -> None:
    peers.chunk_delay_s = 60
    stream = await bus.stream(CHAT, ASK, tenant="acme")
    async with stream:
        await until(lambda: bool(peers.generated))
    await until(lambda: bool(told))
    assert (told[0].outcome, told[0].ttft_ms) == ("cancelled", 0.0)
    assert told[0].total_ms > 0


async def test_a_failure_after_the_first_chunk_keeps_its_time(bus: Bus, peers: Scripted, told: list[Attempted]) -> None:
    peers.continues = False

    async def fails(seq: int, *_: Any) -> None:
        if seq == 2:
            raise Failed("upstream", "out of order")

    peers.broken["w1"] = fails
    events = await ask(bus)
    assert sum(isinstance(event, Chunk) for event in events) == 2
    await until(lambda: bool(told))
    assert told[0].outcome == "upstream"
    assert told[0].ttft_ms > 0


async def test_a_silence_while_the_server_was_away_is_not_the_workers_fault(
    nats_server: NatsServer, bus: Bus, peers: Scripted, told: list[Attempted], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an outage of NATS opens the breaker of every worker, and a model with one worker has none to go on with."""
    monkeypatch.setattr("hasten.outage.LATE_REPLY_S", 600.0)
    lost: list[int] = []

    async def is_lost(seq: int, *_: Any) -> None:
        if seq == 2 and not lost:
            lost.append(seq)
            raise Failed("incomplete", "no sign of life")

    peers.broken["w1"] = is_lost
    await nats_server.stop(kill=True)
    await until(lambda: not bus.connected)
    await nats_server.start()
    await until(lambda: bus.connected)
    await bus.flush()
    assert isinstance((await ask(bus, cache={"mode": "off"}))[-1], Done)
    await until(lambda: len(told) == 2)
    assert [(one.worker, one.outcome) for one in told] == [("w1", "disconnected"), ("w1", "done")]
