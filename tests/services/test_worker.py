"""A worker on a real NATS server: its stream, its line, its word about itself, and what happens when things break."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats.aio.msg import Msg

from hasten.bus import Bus
from hasten.deadline import TENANT, now_ms
from hasten.messages.chat import CANCEL, Accepted, Chunk, Done, Nothing, Ping, Turn
from hasten.messages.failure import Failure
from hasten.messages.generate import GENERATE, STATUS, Generate, Status
from hasten.models import EngineConfig, Model
from hasten.settings import SettingsError
from hasten.worker.engines import Delta, End, EngineError
from hasten.worker.engines.sim import SimEngine
from hasten.worker.service import Worker, build
from hasten.worker.settings import Settings

QUESTION = Generate(messages=[Turn(role="user", content="what does the yearly plan cost")])


def _model(**options: Any) -> Model:
    quick: dict[str, Any] = {"sim_prefill_per_s": 1e6, "sim_decode_per_s": 1e4}
    engine = EngineConfig(kind="sim", **{**quick, **options})
    return Model(name="Sim/One", slug="sim-one", engine=engine, defaults={"temperature": 0.0})


@asynccontextmanager
async def _running(bus: Bus, model: Model, engine: Callable[[], SimEngine] | None = None) -> AsyncIterator[Worker]:
    settings = Settings(worker="w1", revive_after_s=0.01)
    worker = Worker(settings, bus, model, engine) if engine else build(settings, bus, [model])
    try:
        await worker.start()
        yield worker
    finally:
        await worker.close()


async def _ask(bus: Bus, request: Generate = QUESTION, request_id: str = "r1", ms: float = 30_000) -> list[Any]:
    stream = await bus.stream(
        GENERATE,
        request,
        slug="sim-one",
        worker="w1",
        request_id=request_id,
        deadline_ms=now_ms() + ms,
        headers={TENANT: "acme"},
    )
    return [event async for event in stream if not isinstance(event, Ping)]


async def _statuses(bus: Bus) -> list[Status]:
    heard: list[Status] = []

    async def receive(msg: Msg) -> None:
        heard.append(msgspec.json.decode(msg.data, type=Status))

    await bus.subscribe(STATUS.narrowed(slug="sim-one"), receive)
    await bus.flush()
    return heard


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_generation_is_accepted_streamed_and_done(bus: Bus) -> None:
    async with _running(bus, _model(sim_answer="The yearly plan costs 96 euros.")):
        accepted, *chunks, done = await _ask(bus)
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

    model = _model()
    async with _running(bus, model, lambda: Listening(model)):
        await _ask(bus)
    assert asked[0].temperature == 0.0


async def test_a_full_line_says_overloaded_with_a_time_to_come_back(bus: Bus) -> None:
    async with _running(bus, _model(slots=1, queue=1, sim_decode_per_s=20)) as worker:
        tasks = []
        for at in range(2):
            tasks.append(asyncio.create_task(_ask(bus, request_id=f"r{at}")))
            await _until(lambda at=at: worker.status().active + worker.status().queued == at + 1)  # type: ignore[misc]
        status = worker.status()
        assert (status.active, status.queued, status.queue_limit) == (1, 1, 1)
        assert status.queued_tokens > 0
        (refused,) = await _ask(bus, request_id="r3")
        assert isinstance(refused, Failure)
        assert refused.code == "overloaded"
        assert refused.retry_after_ms
        for task in tasks:
            assert isinstance((await task)[-1], Done)


async def test_who_waits_in_line_hears_that_it_is_accepted(bus: Bus) -> None:
    async with _running(bus, _model(slots=1, sim_decode_per_s=20)) as worker:
        first = asyncio.create_task(_ask(bus))
        await _until(lambda: worker.status().active == 1)
        stream = await bus.stream(GENERATE, QUESTION, slug="sim-one", worker="w1", headers={TENANT: "acme"})
        assert isinstance(await anext(stream), Accepted)
        assert worker.status().queued == 1
        await stream.aclose()
        first.cancel()


async def test_expired_requests_are_dropped_before_they_cost_anything(bus: Bus) -> None:
    model = _model(slots=1, sim_decode_per_s=50, sim_answer="one two three four five")
    engine = SimEngine(model)
    async with _running(bus, model, lambda: engine) as worker:
        first = asyncio.create_task(_ask(bus))
        await _until(lambda: worker.status().active == 1)
        late = await asyncio.gather(*(_ask(bus, request_id=f"late{at}", ms=30) for at in range(5)))
        assert [events[-1].code for events in late] == ["deadline"] * 5
        assert isinstance((await first)[-1], Done)
        assert engine.generated == 5


async def test_a_line_that_cannot_be_in_time_is_refused_at_once(bus: Bus) -> None:
    async with _running(bus, _model(slots=1, sim_decode_per_s=10, sim_answer="a b c d")) as worker:
        await _ask(bus, request_id="measured")
        tasks = [asyncio.create_task(_ask(bus, request_id=f"r{at}")) for at in range(3)]
        await _until(lambda: worker.status().queued == 2)
        (refused,) = await _ask(bus, request_id="hurry", ms=200)
        assert refused.code == "overloaded"
        assert refused.retry_after_ms > 200
        for task in tasks:
            task.cancel()


async def test_cancel_by_request_id_stops_the_engine_and_frees_the_slot(bus: Bus) -> None:
    model = _model(slots=1, sim_decode_per_s=20)
    engine = SimEngine(model)
    async with _running(bus, model, lambda: engine) as worker:
        task = asyncio.create_task(_ask(bus))
        await _until(lambda: engine.generated > 2)
        await bus.publish(CANCEL, Nothing(), tenant="other", request_id="r1")
        await bus.flush()
        assert not task.done()
        await bus.publish(CANCEL, Nothing(), tenant="acme", request_id="r1")
        events = await task
        assert events[-1].code == "cancelled"
        await _until(lambda: worker.status().active == 0)
        generated = engine.generated
        await asyncio.sleep(0.2)
        assert engine.generated == generated


async def test_cancel_in_the_line_leaves_the_line(bus: Bus) -> None:
    async with _running(bus, _model(slots=1, sim_decode_per_s=20)) as worker:
        first = asyncio.create_task(_ask(bus))
        await _until(lambda: worker.status().active == 1)
        second = asyncio.create_task(_ask(bus, request_id="r2"))
        await _until(lambda: worker.status().queued == 1)
        await bus.publish(CANCEL, Nothing(), tenant="acme", request_id="r2")
        assert (await second)[-1].code == "cancelled"
        assert worker.status().queued == 0
        assert isinstance((await first)[-1], Done)


async def test_a_reader_that_goes_away_stops_the_engine(bus: Bus, nats_server: Any) -> None:
    model = _model(slots=1, sim_decode_per_s=50, sim_answer="word " * 400)
    engine = SimEngine(model)
    async with _running(bus, model, lambda: engine) as worker:
        reader = await Bus.connect(nats_server.url)
        await reader.stream(GENERATE, QUESTION, slug="sim-one", worker="w1", headers={TENANT: "acme"})
        await _until(lambda: engine.generated > 2)
        await reader.close()
        await _until(lambda: worker.status().active == 0)
        assert engine.generated < 400


async def test_status_numbers_itself_and_tells_each_state(bus: Bus) -> None:
    heard = await _statuses(bus)
    async with _running(bus, _model()) as worker:
        await _until(lambda: len(heard) >= 4)
        await worker.drain()
    await _until(lambda: bool(heard) and heard[-1].state == "down")
    assert [status.seq for status in heard] == list(range(1, len(heard) + 1))
    assert len({status.started_ms for status in heard}) == 1
    states = list(dict.fromkeys(status.state for status in heard))
    assert states == ["starting", "ready", "draining", "down"]
    assert heard[-1].engine == "sim"
    assert heard[-1].continues


async def test_a_drain_is_announced_first_and_finishes_what_was_accepted(bus: Bus) -> None:
    heard = await _statuses(bus)
    async with _running(bus, _model(slots=1, sim_decode_per_s=100)) as worker:
        tasks = [asyncio.create_task(_ask(bus, request_id=f"r{at}")) for at in range(3)]
        await _until(lambda: worker.status().queued == 2)
        draining = asyncio.create_task(worker.drain())
        await _until(lambda: any(status.state == "draining" for status in heard))
        assert not draining.done()
        assert all(isinstance(events[-1], Done) for events in await asyncio.gather(*tasks))
        await draining
        (refused,) = await _ask(bus, request_id="late")
        assert refused.code == "unavailable"


async def test_unsupported_options_are_refused_before_they_are_accepted(bus: Bus) -> None:
    async with _running(bus, _model()):
        (refused,) = await _ask(bus, Generate(messages=QUESTION.messages, tools=[{"type": "function"}]))
        assert (refused.code, refused.param) == ("unsupported", "tools")
        (refused,) = await _ask(bus, Generate(messages=[]))
        assert refused.code == "bad_request"


class _Failing(SimEngine):
    """Fails with `error` after three words, once."""

    error: Exception | None = None

    async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
        sent = 0
        async for event in super().generate(request_id, request):
            if sent == 3 and self.error is not None:
                raise self.error
            sent += 1
            yield event


async def test_a_failed_generation_says_how_much_was_sent_and_leaves_the_worker_well(bus: Bus) -> None:
    model = _model(sim_decode_per_s=20)
    engine = _Failing(model)
    engine.error = EngineError("upstream", "it said no", retry_after_ms=70)
    async with _running(bus, model, lambda: engine) as worker:
        _, *chunks, failure = await _ask(bus)
        assert isinstance(failure, Failure)
        assert (failure.code, failure.retry_after_ms, failure.model) == ("upstream", 70, "Sim/One")
        assert failure.tokens_sent == len(chunks) > 0
        assert all(isinstance(chunk, Chunk) for chunk in chunks)
        engine.error = None
        assert worker.status().state == "ready"
        assert isinstance((await _ask(bus, request_id="r2"))[-1], Done)


async def test_a_broken_engine_takes_the_worker_down_and_is_started_again(bus: Bus) -> None:
    heard = await _statuses(bus)
    model, made = _model(sim_decode_per_s=200), []

    def engine() -> SimEngine:
        made.append(_Failing(model))
        made[-1].error = RuntimeError("a secret prompt") if len(made) == 1 else None
        return made[-1]

    async with _running(bus, model, engine) as worker:
        failure = (await _ask(bus))[-1]
        assert failure.code == "upstream"
        assert "secret" not in failure.detail
        await _until(lambda: worker.status().state == "ready")
        assert isinstance((await _ask(bus, request_id="r2"))[-1], Done)
    assert "down" in [status.state for status in heard]
    assert len(made) == 2


class _Gated(_Failing):
    """Counts what it does; starts only when `gate` is set."""

    def __init__(self, model: Model, gate: asyncio.Event) -> None:
        super().__init__(model)
        self.gate, self.starting, self.closed, self.asked = gate, False, 0, 0

    async def start(self) -> None:
        self.starting = True
        await self.gate.wait()

    async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
        self.asked += 1
        async for event in super().generate(request_id, request):
            yield event

    async def close(self) -> None:
        self.closed += 1
        await super().close()


def _first_breaks(model: Model, made: list[_Gated], gate: asyncio.Event) -> Callable[[], _Gated]:
    """The first engine starts and then breaks; the others wait for the gate to start."""
    opened = asyncio.Event()
    opened.set()

    def engine() -> _Gated:
        made.append(_Gated(model, gate if made else opened))
        made[-1].error = None if len(made) > 1 else RuntimeError("broken")
        return made[-1]

    return engine


async def test_a_drain_stays_a_drain_when_the_engine_comes_back(bus: Bus) -> None:
    heard = await _statuses(bus)
    made: list[_Gated] = []
    model, gate = _model(), asyncio.Event()
    async with _running(bus, model, _first_breaks(model, made, gate)) as worker:
        assert (await _ask(bus))[-1].code == "upstream"
        await _until(lambda: len(made) == 2 and made[1].starting)
        await worker.drain()
        seen = worker.status().seq
        gate.set()
        await _until(lambda: worker.status().seq >= seen + 3)
        assert worker.status().state == "draining"
    await _until(lambda: heard[-1].state == "down" and heard[-1].seq > seen)
    states = [status.state for status in heard]
    assert "ready" not in states[states.index("draining") :]


async def test_an_engine_that_breaks_in_a_drain_is_given_no_more_requests(bus: Bus) -> None:
    made: list[_Gated] = []
    model, gate = _model(slots=1, sim_decode_per_s=10), asyncio.Event()
    async with _running(bus, model, _first_breaks(model, made, gate)) as worker:
        first = asyncio.create_task(_ask(bus))
        await _until(lambda: worker.status().active == 1)
        second = asyncio.create_task(_ask(bus, request_id="r2"))
        await _until(lambda: worker.status().queued == 1)
        await worker.drain()
        assert (await first)[-1].code == "upstream"
        assert (await second)[-1].code == "unavailable"
    assert [engine.asked for engine in made] == [1]


async def test_close_closes_the_engine_that_is_being_started_again(bus: Bus) -> None:
    made: list[_Gated] = []
    model = _model()
    async with _running(bus, model, _first_breaks(model, made, asyncio.Event())):
        await _ask(bus)
        await _until(lambda: len(made) == 2 and made[1].starting)
    assert len(made) == 2
    assert all(engine.closed for engine in made)


async def test_an_engine_that_does_not_start_again_is_closed_and_another_made(bus: Bus) -> None:
    class Stubborn(_Gated):
        async def start(self) -> None:
            if len(made) == 2:
                raise RuntimeError("no memory")

    made: list[Stubborn] = []
    model = _model()

    def engine() -> Stubborn:
        made.append(Stubborn(model, asyncio.Event()))
        made[-1].error = RuntimeError("broken") if len(made) == 1 else None
        return made[-1]

    async with _running(bus, model, engine) as worker:
        await _ask(bus)
        await _until(lambda: worker.status().state == "ready")
        assert [bool(one.closed) for one in made] == [True, True, False]


async def test_a_hung_slot_shows_in_the_status_until_its_first_token(bus: Bus) -> None:
    gate = asyncio.Event()

    class Hung(SimEngine):
        async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
            await gate.wait()
            async for event in super().generate(request_id, request):
                yield event

    heard = await _statuses(bus)
    model = _model(sim_decode_per_s=20, sim_answer="one two three four five six")
    async with _running(bus, model, lambda: Hung(model)) as worker:
        task = asyncio.create_task(_ask(bus))
        await _until(lambda: bool(heard) and heard[-1].oldest_ms > 300)
        assert (heard[-1].active, heard[-1].queued) == (1, 0)
        gate.set()
        await _until(lambda: worker.status().oldest_ms == 0.0)
        assert worker.status().active == 1
        assert isinstance((await task)[-1], Done)


async def test_a_chunk_that_cannot_be_sent_is_not_taken_for_a_broken_engine(bus: Bus) -> None:
    class Long(SimEngine):
        async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
            yield Delta(text="x" * 2_000_000)
            yield End(finish_reason="stop")

    model = _model()
    async with _running(bus, model, lambda: Long(model)) as worker:
        assert (await _ask(bus))[-1].code == "too_large"
        assert worker.status().state == "ready"


async def test_a_worker_whose_engine_does_not_start_says_down_and_closes(bus: Bus) -> None:
    heard = await _statuses(bus)

    class Missing(SimEngine):
        async def start(self) -> None:
            raise FileNotFoundError("no weights")

    model = _model()
    with pytest.raises(FileNotFoundError, match="no weights"):
        async with _running(bus, model, lambda: Missing(model)):
            pass
    await _until(lambda: bool(heard) and heard[-1].state == "down")
    assert "ready" not in [status.state for status in heard]


async def test_close_survives_a_start_that_was_given_up(bus: Bus) -> None:
    class Slow(SimEngine):
        async def start(self) -> None:
            await asyncio.sleep(60)

    model = _model()
    before = asyncio.all_tasks()
    worker = Worker(Settings(), bus, model, lambda: Slow(model))
    starting = asyncio.create_task(worker.start())
    await asyncio.sleep(0.05)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await worker.close()
    await worker.close()
    assert asyncio.all_tasks() <= before, "nothing goes on behind its back"


async def test_an_unknown_engine_is_one_sentence(bus: Bus, tmp_path: Path) -> None:
    model = Model(name="m", slug="m", engine=EngineConfig(kind="warp"))
    with pytest.raises(SettingsError, match="there is no engine 'warp'; there are llama, openai, sim"):
        build(Settings(data=str(tmp_path)), bus, [model])
