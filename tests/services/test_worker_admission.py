"""The line of a worker on a real NATS server: who is admitted, who is refused and when to come back."""

import asyncio
from typing import Any

from patience import until
from worker_rig import QUESTION, Held, ask, model_of, running

from hasten.bus import Bus
from hasten.deadline import TENANT
from hasten.messages.chat import Accepted, Done, Turn
from hasten.messages.failure import Failure
from hasten.messages.generate import GENERATE, Generate
from hasten.worker.engines.sim import SimEngine
from hasten.worker.service import Worker


async def test_a_full_line_says_overloaded_with_a_time_to_come_back(bus: Bus) -> None:
    model, gate = model_of(slots=1, queue=1), asyncio.Event()
    async with running(bus, model, lambda: Held(model, gate)) as worker:
        tasks = []
        for at in range(2):
            tasks.append(asyncio.create_task(ask(bus, request_id=f"r{at}")))
            await until(lambda at=at: worker.status().active + worker.status().queued == at + 1)  # type: ignore[misc]
        status = worker.status()
        assert (status.active, status.queued, status.queue_limit) == (1, 1, 1)
        assert status.queued_tokens > 0
        (refused,) = await ask(bus, request_id="r3")
        assert isinstance(refused, Failure)
        assert refused.code == "overloaded"
        assert refused.retry_after_ms
        gate.set()
        for task in tasks:
            assert isinstance((await task)[-1], Done)


async def test_who_waits_in_line_hears_that_it_is_accepted(bus: Bus) -> None:
    model = model_of(slots=1)
    async with running(bus, model, lambda: Held(model, asyncio.Event())) as worker:
        first = asyncio.create_task(ask(bus))
        await until(lambda: worker.status().active == 1)
        stream = await bus.stream(GENERATE, QUESTION, slug="sim-one", worker="w1", headers={TENANT: "acme"})
        assert isinstance(await anext(stream), Accepted)
        assert worker.status().queued == 1
        await stream.aclose()
        first.cancel()


async def test_expired_requests_are_dropped_before_they_cost_anything(bus: Bus) -> None:
    model, gate = model_of(slots=1, sim_answer="one two three four five"), asyncio.Event()
    engine = Held(model, gate)
    async with running(bus, model, lambda: engine) as worker:
        first = asyncio.create_task(ask(bus))
        await until(lambda: worker.status().active == 1)
        late = await asyncio.gather(*(ask(bus, request_id=f"late{at}", ms=30) for at in range(5)))
        assert [events[-1].code for events in late] == ["deadline"] * 5
        gate.set()
        assert isinstance((await first)[-1], Done)
        assert engine.generated == 5


async def test_a_line_that_cannot_be_in_time_is_refused_at_once(bus: Bus) -> None:
    model, gate = model_of(slots=1, sim_decode_per_s=4, sim_answer="a b c d"), asyncio.Event()
    async with running(bus, model, lambda: Held(model, gate)) as worker:
        gate.set()
        await ask(bus, request_id="measured")
        gate.clear()
        tasks = [asyncio.create_task(ask(bus, request_id=f"r{at}")) for at in range(6)]
        await until(lambda: worker.status().queued == 5)
        (refused,) = await ask(bus, request_id="hurry", ms=2000)
        assert refused.code in ("overloaded", "deadline")
        assert refused.code == "deadline" or refused.retry_after_ms > 0
        for task in tasks:
            task.cancel()


def _asks(text: str, priority: int = 0) -> Generate:
    return Generate(messages=[Turn(role="user", content=text)], priority=priority)


async def _fill(bus: Bus, worker: Worker, questions: list[tuple[str, str, int]]) -> list[asyncio.Task[list[Any]]]:
    """Asks for one tenant after the other, and returns when all are in a slot or in line."""
    tasks: list[asyncio.Task[list[Any]]] = []
    before = worker.status().active + worker.status().queued
    for tenant, text, priority in questions:
        tasks.append(asyncio.create_task(ask(bus, _asks(text, priority), f"r-{text}", tenant=tenant)))
        there = before + len(tasks)
        await until(lambda there=there: worker.status().active + worker.status().queued == there)  # type: ignore[misc]
    return tasks


async def test_a_tenant_with_many_in_line_does_not_delay_the_first_of_another(bus: Bus) -> None:
    model, gate = model_of(slots=1, queue=100), asyncio.Event()
    engine = Held(model, gate)
    async with running(bus, model, lambda: engine) as worker:
        tasks = await _fill(bus, worker, [("greedy", f"g{at}", 10) for at in range(40)])
        tasks += await _fill(bus, worker, [("modest", "m", 0)])
        gate.set()
        assert all(isinstance(events[-1], Done) for events in await asyncio.gather(*tasks))
    assert engine.asked.index("m") <= 2, "the one in the slot and one turn of the other"


async def test_priority_goes_before_arrival_within_a_tenant(bus: Bus) -> None:
    model, gate = model_of(slots=1, queue=100), asyncio.Event()
    engine = Held(model, gate)
    async with running(bus, model, lambda: engine) as worker:
        given = [("acme", "first", 0), ("acme", "low", -10), ("acme", "plain", 0), ("acme", "high", 10)]
        tasks = await _fill(bus, worker, given)
        gate.set()
        await asyncio.gather(*tasks)
    assert engine.asked == ["first", "high", "plain", "low"]


async def test_one_tenant_cannot_fill_the_line(bus: Bus) -> None:
    model, gate = model_of(slots=1, queue=8), asyncio.Event()
    async with running(bus, model, lambda: Held(model, gate)) as worker:
        tasks = await _fill(bus, worker, [("greedy", f"g{at}", 0) for at in range(7)])
        (refused,) = await ask(bus, _asks("more"), "more", tenant="greedy")
        assert refused.code == "overloaded"
        assert refused.retry_after_ms > 0
        tasks += await _fill(bus, worker, [("modest", "m", 0)])
        gate.set()
        assert all(isinstance(events[-1], Done) for events in await asyncio.gather(*tasks))


async def test_a_prompt_that_takes_longer_than_the_deadline_is_refused_even_with_a_free_slot(bus: Bus) -> None:
    """The one event says that it was not accepted; `deadline` is what it hears when it arrives too late itself."""
    model = model_of(sim_prefill_per_s=500.0, sim_prefix_cache=False)
    engine = SimEngine(model)
    async with running(bus, model, lambda: engine):
        await ask(bus, _asks("word " * 600), "measured")
        before = engine.generated
        (refused,) = await ask(bus, _asks("word " * 600), "hurry", ms=1000)
        assert refused.code in ("overloaded", "deadline")
        assert engine.generated == before


async def test_who_has_waited_too_long_for_an_answer_in_time_is_not_begun(bus: Bus) -> None:
    """The slot held longer than was thought, so that what is left is too little for an answer."""
    model, gate = model_of(slots=1, sim_decode_per_s=8, sim_answer="a b c d e"), asyncio.Event()
    engine = Held(model, gate)
    async with running(bus, model, lambda: engine) as worker:
        gate.set()
        await ask(bus, _asks("measured"), "measured")
        gate.clear()
        tasks = await _fill(bus, worker, [("acme", "slow", 0)])
        late = asyncio.create_task(ask(bus, _asks("late"), "late", ms=1500))
        await asyncio.sleep(1.2)
        gate.set()
        assert (await late)[-1].code in ("overloaded", "deadline")
        await asyncio.gather(*tasks)
    assert engine.asked == ["measured", "slow"]
