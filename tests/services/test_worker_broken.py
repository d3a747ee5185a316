"""What a worker does when its engine fails, breaks, hangs or does not start."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from patience import until
from worker_rig import Failing, Gated, ask, first_breaks, model_of, running, statuses_of

from hasten.bus import Bus
from hasten.messages.chat import Chunk, Done
from hasten.messages.failure import Failure
from hasten.messages.generate import Generate
from hasten.worker.engines import Delta, End, EngineError
from hasten.worker.engines.sim import SimEngine
from hasten.worker.service import Worker
from hasten.worker.settings import Settings


async def test_a_failed_generation_says_how_much_was_sent_and_leaves_the_worker_well(bus: Bus) -> None:
    model = model_of(sim_decode_per_s=20)
    engine = Failing(model)
    engine.error = EngineError("upstream", "it said no", retry_after_ms=70)
    async with running(bus, model, lambda: engine) as worker:
        _, *chunks, failure = await ask(bus)
        assert isinstance(failure, Failure)
        assert (failure.code, failure.retry_after_ms, failure.model) == ("upstream", 70, "Sim/One")
        assert failure.tokens_sent == len(chunks) > 0
        assert all(isinstance(chunk, Chunk) for chunk in chunks)
        engine.error = None
        assert worker.status().state == "ready"
        assert isinstance((await ask(bus, request_id="r2"))[-1], Done)


async def test_a_broken_engine_takes_the_worker_down_and_is_started_again(bus: Bus) -> None:
    heard = await statuses_of(bus)
    model, made = model_of(sim_decode_per_s=200), []

    def engine() -> SimEngine:
        made.append(Failing(model))
        made[-1].error = RuntimeError("a secret prompt") if len(made) == 1 else None
        return made[-1]

    async with running(bus, model, engine) as worker:
        failure = (await ask(bus))[-1]
        assert failure.code == "upstream"
        assert "secret" not in failure.detail
        await until(lambda: worker.status().state == "ready")
        assert isinstance((await ask(bus, request_id="r2"))[-1], Done)
    assert "down" in [status.state for status in heard]
    assert len(made) == 2


async def test_a_drain_stays_a_drain_when_the_engine_comes_back(bus: Bus) -> None:
    heard = await statuses_of(bus)
    made: list[Gated] = []
    model, gate = model_of(), asyncio.Event()
    async with running(bus, model, first_breaks(model, made, gate)) as worker:
        assert (await ask(bus))[-1].code == "upstream"
        await until(lambda: len(made) == 2 and made[1].starting)
        await worker.drain()
        seen = worker.status().seq
        gate.set()
        await until(lambda: worker.status().seq >= seen + 3)
        assert worker.status().state == "draining"
    await until(lambda: heard[-1].state == "down" and heard[-1].seq > seen)
    states = [status.state for status in heard]
    assert "ready" not in states[states.index("draining") :]


async def test_an_engine_that_breaks_in_a_drain_is_given_no_more_requests(bus: Bus) -> None:
    made: list[Gated] = []
    model, gate, breaks = model_of(slots=1), asyncio.Event(), asyncio.Event()
    async with running(bus, model, first_breaks(model, made, gate)) as worker:
        generate = made[0].generate

        async def held(request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
            await breaks.wait()
            async for event in generate(request_id, request):
                yield event

        made[0].generate = held  # type: ignore[method-assign]
        first = asyncio.create_task(ask(bus))
        await until(lambda: worker.status().active == 1)
        second = asyncio.create_task(ask(bus, request_id="r2"))
        await until(lambda: worker.status().queued == 1)
        draining = asyncio.create_task(worker.drain())
        await until(lambda: worker.status().state == "draining")
        breaks.set()
        await draining
        assert (await first)[-1].code == "upstream"
        assert (await second)[-1].code == "unavailable"
    assert [engine.asked for engine in made] == [1]


async def test_close_closes_the_engine_that_is_being_started_again(bus: Bus) -> None:
    made: list[Gated] = []
    model = model_of()
    async with running(bus, model, first_breaks(model, made, asyncio.Event())):
        await ask(bus)
        await until(lambda: len(made) == 2 and made[1].starting)
    assert len(made) == 2
    assert all(engine.closed for engine in made)


async def test_an_engine_that_does_not_start_again_is_closed_and_another_made(bus: Bus) -> None:
    class Stubborn(Gated):
        async def start(self) -> None:
            if len(made) == 2:
                raise RuntimeError("no memory")

    made: list[Stubborn] = []
    model = model_of()

    def engine() -> Stubborn:
        made.append(Stubborn(model, asyncio.Event()))
        made[-1].error = RuntimeError("broken") if len(made) == 1 else None
        return made[-1]

    async with running(bus, model, engine) as worker:
        await ask(bus)
        await until(lambda: worker.status().state == "ready")
        assert [bool(one.closed) for one in made] == [True, True, False]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (EngineError("unavailable", "the model server is not ready"), "does not start: the model server is not ready"),
        (RuntimeError("a secret path"), "does not start: RuntimeError"),
    ],
)
async def test_the_log_says_why_an_engine_does_not_start_again(
    bus: Bus, caplog: pytest.LogCaptureFixture, error: Exception, said: str
) -> None:
    class Away(SimEngine):
        async def start(self) -> None:
            made.append(self)
            if len(made) == 1:
                raise EngineError("unavailable", "nobody is there yet")
            if len(made) == 2:
                raise error

    made: list[SimEngine] = []
    model = model_of()
    async with running(bus, model, lambda: Away(model)) as worker:
        await until(lambda: worker.status().state == "ready")
    assert said in caplog.text
    assert "secret" not in caplog.text


async def test_a_hung_slot_shows_in_the_status_until_its_first_token(bus: Bus) -> None:
    gate = asyncio.Event()

    class Hung(SimEngine):
        async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
            await gate.wait()
            async for event in super().generate(request_id, request):
                yield event

    heard = await statuses_of(bus)
    model = model_of(sim_decode_per_s=20, sim_answer="one two three four five six")
    async with running(bus, model, lambda: Hung(model)) as worker:
        task = asyncio.create_task(ask(bus))
        await until(lambda: bool(heard) and heard[-1].oldest_ms > 300)
        assert (heard[-1].active, heard[-1].queued) == (1, 0)
        gate.set()
        await until(lambda: worker.status().oldest_ms == 0.0)
        assert worker.status().active == 1
        assert isinstance((await task)[-1], Done)


async def test_a_chunk_that_cannot_be_sent_is_not_taken_for_a_broken_engine(bus: Bus) -> None:
    class Long(SimEngine):
        async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
            yield Delta(text="x" * 2_000_000)
            yield End(finish_reason="stop")

    model = model_of()
    async with running(bus, model, lambda: Long(model)) as worker:
        assert (await ask(bus))[-1].code == "too_large"
        assert worker.status().state == "ready"


async def test_a_worker_whose_engine_does_not_start_says_down_and_closes(bus: Bus) -> None:
    heard = await statuses_of(bus)

    class Missing(SimEngine):
        async def start(self) -> None:
            raise FileNotFoundError("no weights")

    model = model_of()
    with pytest.raises(FileNotFoundError, match="no weights"):
        async with running(bus, model, lambda: Missing(model)):
            pass
    await until(lambda: bool(heard) and heard[-1].state == "down")
    assert "ready" not in [status.state for status in heard]


async def test_close_survives_a_start_that_was_given_up(bus: Bus) -> None:
    class Slow(SimEngine):
        async def start(self) -> None:
            await asyncio.sleep(60)

    model = model_of()
    before = asyncio.all_tasks()
    worker = Worker(Settings(), bus, model, lambda: Slow(model))
    starting = asyncio.create_task(worker.start())
    await asyncio.sleep(0.05)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await worker.close()
    await worker.close()
    assert asyncio.all_tasks() <= before, "nothing goes on behind its back"
