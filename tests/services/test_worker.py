"""A worker on a real NATS server: its stream, its word about itself, and how it ends."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from patience import until
from worker_rig import QUESTION, Failing, Held, ask, model_of, running, statuses_of

from hasten.bus import Bus
from hasten.deadline import TENANT
from hasten.messages.chat import CANCEL, Accepted, Done, Nothing
from hasten.messages.generate import GENERATE, Generate
from hasten.models import EngineConfig, Model
from hasten.settings import SettingsError
from hasten.worker.engines import Delta, End, EngineError
from hasten.worker.engines.sim import SimEngine
from hasten.worker.service import build
from hasten.worker.settings import Settings


async def test_a_generation_is_accepted_streamed_and_done(bus: Bus) -> None:
    async with running(bus, model_of(sim_answer="The yearly plan costs 96 euros.")):
        accepted, *chunks, done = await ask(bus)
    assert isinstance(accepted, Accepted)
    assert accepted.request_id == "r1"
    assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
    assert "".join(chunk.text for chunk in chunks) == "The yearly plan costs 96 euros."
    assert isinstance(done, Done)
    assert (done.finish_reason, done.model, done.chunks) == ("stop", "Sim/One", len(chunks))
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (7, 6)
    assert {"queue", "first_token", "decode"} <= set(done.timings_ms)
    assert done.ttft_ms > 0


async def test_defaults_of_the_model_reach_the_engine(bus: Bus) -> None:
    asked: list[Generate] = []

    class Listening(SimEngine):
        async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
            asked.append(request)
            async for event in super().generate(request_id, request):
                yield event

    model = model_of()
    async with running(bus, model, lambda: Listening(model)):
        await ask(bus)
    assert asked[0].temperature == 0.0


async def test_cancel_by_request_id_stops_the_engine_and_frees_the_slot(bus: Bus) -> None:
    model = model_of(slots=1, sim_decode_per_s=20, sim_answer="word " * 400)
    engine = SimEngine(model)
    async with running(bus, model, lambda: engine) as worker:
        task = asyncio.create_task(ask(bus))
        await until(lambda: engine.generated > 2)
        await bus.publish(CANCEL, Nothing(), tenant="other", request_id="r1")
        await bus.flush()
        assert not task.done()
        await bus.publish(CANCEL, Nothing(), tenant="acme", request_id="r1")
        events = await task
        assert events[-1].code == "cancelled"
        await until(lambda: worker.status().active == 0)
        generated = engine.generated
        await asyncio.sleep(0.2)
        assert engine.generated == generated


async def test_cancel_in_the_line_leaves_the_line(bus: Bus) -> None:
    model, gate = model_of(slots=1), asyncio.Event()
    async with running(bus, model, lambda: Held(model, gate)) as worker:
        first = asyncio.create_task(ask(bus))
        await until(lambda: worker.status().active == 1)
        second = asyncio.create_task(ask(bus, request_id="r2"))
        await until(lambda: worker.status().queued == 1)
        await bus.publish(CANCEL, Nothing(), tenant="acme", request_id="r2")
        assert (await second)[-1].code == "cancelled"
        assert worker.status().queued == 0
        gate.set()
        assert isinstance((await first)[-1], Done)


async def test_a_reader_that_goes_away_stops_the_engine(bus: Bus, nats_server: Any) -> None:
    model = model_of(slots=1, sim_decode_per_s=50, sim_answer="word " * 400)
    engine = SimEngine(model)
    async with running(bus, model, lambda: engine) as worker:
        reader = await Bus.connect(nats_server.url)
        await reader.stream(GENERATE, QUESTION, slug="sim-one", worker="w1", headers={TENANT: "acme"})
        await until(lambda: engine.generated > 2)
        await reader.close()
        await until(lambda: worker.status().active == 0)
        assert engine.generated < 400


async def test_status_numbers_itself_and_tells_each_state(bus: Bus) -> None:
    heard = await statuses_of(bus)
    async with running(bus, model_of()) as worker:
        await until(lambda: len(heard) >= 4)
        await worker.drain()
    await until(lambda: bool(heard) and heard[-1].state == "down")
    assert [status.seq for status in heard] == list(range(1, len(heard) + 1))
    assert len({status.started_ms for status in heard}) == 1
    states = list(dict.fromkeys(status.state for status in heard))
    assert states == ["starting", "ready", "draining", "down"]
    assert heard[-1].engine == "sim"
    assert heard[-1].continues


async def test_a_drain_is_announced_first_and_finishes_what_was_accepted(bus: Bus) -> None:
    heard = await statuses_of(bus)
    model, gate = model_of(slots=1), asyncio.Event()
    async with running(bus, model, lambda: Held(model, gate)) as worker:
        tasks = [asyncio.create_task(ask(bus, request_id=f"r{at}")) for at in range(3)]
        await until(lambda: worker.status().queued == 2)
        draining = asyncio.create_task(worker.drain())
        await until(lambda: any(status.state == "draining" for status in heard))
        assert not draining.done()
        gate.set()
        assert all(isinstance(events[-1], Done) for events in await asyncio.gather(*tasks))
        await draining
        (refused,) = await ask(bus, request_id="late")
        assert refused.code == "unavailable"


async def test_a_pause_that_its_engine_is_asked_for_is_told_at_once(bus: Bus) -> None:
    class Paused(Failing):
        pause_ms = 0.0

        async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
            self.pause_ms = 7000.0
            raise EngineError("overloaded", "later", retry_after_ms=7000)
            yield End(finish_reason="stop")

    heard, model = await statuses_of(bus), model_of()
    async with running(bus, model, lambda: Paused(model)):
        await until(lambda: any(status.state == "ready" for status in heard))
        assert {status.pause_ms for status in heard} == {0.0}
        (*_, refused) = await ask(bus)
        assert (refused.code, refused.retry_after_ms) == ("overloaded", 7000)
        await until(lambda: heard[-1].pause_ms == 7000)


async def test_unsupported_options_are_refused_before_they_are_accepted(bus: Bus) -> None:
    async with running(bus, model_of()):
        (refused,) = await ask(bus, Generate(messages=QUESTION.messages, tools=[{"type": "function"}]))
        assert (refused.code, refused.param) == ("unsupported", "tools")
        (refused,) = await ask(bus, Generate(messages=[]))
        assert refused.code == "bad_request"


async def test_an_unknown_engine_is_one_sentence(bus: Bus, tmp_path: Path) -> None:
    model = Model(name="m", slug="m", engine=EngineConfig(kind="warp"))
    with pytest.raises(SettingsError, match="there is no engine 'warp'; there are llama, openai, sim"):
        build(Settings(data=str(tmp_path)), bus, [model])
