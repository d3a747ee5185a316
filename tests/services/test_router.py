"""The router on a real NATS server, fed with the events that workers and orchestrators publish."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest_asyncio

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.chat import FINISHED, Finished
from hasten.messages.failure import Failure
from hasten.messages.generate import STATUS, Status
from hasten.messages.route import MODELS, ROUTE, ModelInfo, ModelList, Models, Route, Routed
from hasten.models import model_table
from hasten.router.service import Router, build
from hasten.router.settings import Settings

TABLE = model_table(
    {
        "models": [
            {"name": "Small", "aliases": ["fast"], "quality": 0.4, "cost_per_1k_completion": 0.1, "max_tokens": 300},
            {"name": "Large", "quality": 0.7, "cost_per_1k_completion": 1.0, "defaults": {"temperature": 0.0}},
        ]
    }
)
EASY, HARD = "What is the price of the Basic plan?", "Explain why and compare the trade-offs."


@pytest_asyncio.fixture
async def router(bus: Bus) -> AsyncIterator[Router]:
    made = build(Settings(probe_share=0), bus, TABLE)
    await made.start()
    yield made
    await made.drain()
    await made.close()


class Workers:
    """Announces workers as they would themselves."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self._seq = bus, 0

    async def say(self, slug: str, worker: str, **fields: Any) -> None:
        self._seq += 1
        plain = {"state": "ready", "engine": "sim", "model": slug, "slots": 64, "queue_limit": 64, **fields}
        await self._bus.publish(STATUS, Status(seq=self._seq, started_ms=1, **plain), slug=slug, worker=worker)
        await self._bus.flush()


@pytest_asyncio.fixture
async def workers(bus: Bus) -> Workers:
    return Workers(bus)


async def ask(bus: Bus, text: str = EASY, *, request_id: str | None = None, **fields: Any) -> Any:
    return await bus.request(ROUTE, Route(text=text, **fields), request_id=request_id, tenant="acme")


async def finish(bus: Bus, count: int, **fields: Any) -> None:
    for seq in range(1, count + 1):
        event = Finished(source="o1", seq=seq, request_id=f"r{seq}", **{"outcome": "done", **fields})
        await bus.publish(FINISHED, event, tenant="acme")
    await bus.flush()


async def figures(bus: Bus, slug: str) -> ModelInfo:
    reply = await bus.request(MODELS, Models(), tenant="acme")
    assert isinstance(reply, ModelList)
    return next(info for info in reply.models if info.slug == slug)


async def test_a_request_gets_a_model_a_worker_and_the_sizes(bus: Bus, router: Router, workers: Workers) -> None:
    await workers.say("small", "s1", continues=True, context_window=2048)
    await workers.say("large", "l1")
    easy = await ask(bus)
    assert isinstance(easy, Routed)
    assert (easy.model, easy.slug, easy.worker) == ("Small", "small", "s1")
    assert (easy.context_window, easy.token_budget, easy.max_tokens, easy.continues) == (2048, 1200, 300, True)
    hard = await ask(bus, HARD, max_tokens=100_000)
    assert isinstance(hard, Routed)
    assert (hard.model, hard.worker, hard.defaults) == ("Large", "l1", {"temperature": 0.0})
    assert hard.token_budget + hard.max_tokens <= hard.context_window
    assert hard.difficulty > easy.difficulty
    assert "reasoning" in hard.features
    assert hard.reason.startswith("Large ")


async def test_a_router_that_has_just_started_waits_for_the_first_word(
    bus: Bus, router: Router, workers: Workers
) -> None:
    asked = asyncio.create_task(ask(bus, model="Large"))
    await asyncio.sleep(0.05)
    await workers.say("small", "s1")
    await asyncio.sleep(0.05)
    assert not asked.done(), "the first word was of another model"
    await workers.say("large", "l1")
    assert isinstance(await asked, Routed)


async def test_nobody_there_is_unavailable_after_a_short_wait_and_then_at_once(bus: Bus, router: Router) -> None:
    first = await ask(bus)
    assert isinstance(first, Failure)
    assert (first.code, first.retry_after_ms) == ("unavailable", 1000)
    started = time.monotonic()
    assert isinstance(await ask(bus), Failure)
    assert time.monotonic() - started < Settings().settle_ms / 1000


async def test_the_first_wait_respects_the_deadline(bus: Bus) -> None:
    router = build(Settings(settle_ms=60_000), bus, TABLE)
    await router.start()
    reply = await bus.request(ROUTE, Route(text=EASY), deadline_ms=now_ms() + 150, tenant="acme")
    assert isinstance(reply, Failure)
    assert reply.code == "deadline"
    await router.close()


async def test_a_silent_worker_leaves_within_two_seconds_and_one_that_drains_at_once(
    bus: Bus, router: Router, workers: Workers
) -> None:
    await workers.say("small", "silent")
    assert (await ask(bus)).worker == "silent"
    started = time.monotonic()
    while isinstance(await ask(bus), Routed):
        await asyncio.sleep(0.05)
        assert time.monotonic() - started < 20, "still routed to a worker that is gone"
    assert time.monotonic() - started >= 1.5, "a worker is not gone after one missed status"
    await workers.say("small", "s2")
    assert (await ask(bus)).worker == "s2"
    await workers.say("small", "s2", state="draining")
    assert (await ask(bus)).code == "unavailable"


async def test_a_burst_between_two_statuses_is_shared(bus: Bus, router: Router, workers: Workers) -> None:
    for name in ("s1", "s2", "s3"):
        await workers.say("small", name)
    routed = await asyncio.gather(*(ask(bus, prompt_tokens=100) for _ in range(30)))
    chosen = [reply.worker for reply in routed]
    assert sorted(chosen.count(name) for name in ("s1", "s2", "s3")) == [10, 10, 10]


async def test_excluded_workers_are_not_chosen(bus: Bus, router: Router, workers: Workers) -> None:
    await workers.say("small", "s1")
    await workers.say("small", "s2")
    assert {(await ask(bus, exclude=["s1"])).worker for _ in range(10)} == {"s2"}
    assert (await ask(bus, exclude=["s1", "s2"])).code == "unavailable"


async def test_measured_latencies_move_the_choice_and_hits_do_not(bus: Bus, router: Router, workers: Workers) -> None:
    """c2-19: a hit says nothing of the model that once made the answer."""
    await workers.say("small", "s1")
    await workers.say("large", "l1")
    await finish(bus, 50, slug="small", worker="s1", cache="exact", ttft_ms=9000.0, total_ms=9000.0)
    assert (await figures(bus, "small")).samples == 0
    assert (await ask(bus, latency_budget_ms=1000)).model == "Small"
    await finish(bus, 50, slug="small", worker="s1", worker_ttft_ms=3000.0, ttft_ms=3100.0, total_ms=9000.0)
    measured = await figures(bus, "small")
    assert (measured.samples, measured.p50_ttft_ms, measured.p95_ttft_ms) == (50, 3000, 3000)
    assert (await ask(bus, latency_budget_ms=1000)).model == "Large"
    small, large = await ask(bus, model="Small"), await ask(bus, model="Large")
    assert (small.p95_ttft_ms, large.p95_ttft_ms) == (3000, 0), "a prior is no measurement to hedge by"


async def test_failing_fast_does_not_look_good(bus: Bus, router: Router, workers: Workers) -> None:
    await workers.say("small", "s1")
    await workers.say("large", "l1")
    await finish(bus, 30, slug="small", worker="s1", outcome="upstream", total_ms=2.0)
    assert (await ask(bus, latency_budget_ms=1000)).model == "Large"


async def test_two_replicas_decide_alike(nats_server: Any, bus: Bus, workers: Workers) -> None:
    table = model_table({"models": [{"name": name} for name in ("a", "b", "c")]})
    other = await Bus.connect(nats_server.url)
    replicas = [build(Settings(), bus, table), build(Settings(), other, table)]
    for replica in replicas:
        await replica.start()
    for slug in "abc":
        await workers.say(slug, f"{slug}-1", slots=500)
        await finish(bus, 40, slug=slug, worker=f"{slug}-1", worker_ttft_ms=200.0, total_ms=500.0)
    await asyncio.gather(bus.flush(), other.flush())
    await asyncio.sleep(0.1)
    chosen = {}
    for number in range(20):
        replies = [await ask(bus, request_id=f"r{number}") for _ in range(6)]
        models = {reply.model for reply in replies}
        assert len(models) == 1
        chosen[number] = models.pop()
    assert len(set(chosen.values())) == 3, "equals are spread"
    assert all(replica._service.endpoints[0].num_requests > 0 for replica in replicas), "both have answered"
    for replica in replicas:
        await replica.close()
    await other.close()


async def test_events_of_unknown_models_and_broken_ones_change_nothing(
    bus: Bus, router: Router, workers: Workers
) -> None:
    await workers.say("nobody", "n1")
    await bus.client.publish("hasten.v1.status.small.s1", b'{"seq": "x"}')
    await bus.client.publish("hasten.v1.finished.acme", b"[]")
    await finish(bus, 3, slug="nobody", worker="n1", worker_ttft_ms=1.0)
    await workers.say("small", "s1")
    assert (await ask(bus)).worker == "s1"


async def test_models_lists_the_table_with_live_figures(bus: Bus, router: Router, workers: Workers) -> None:
    await workers.say("small", "s1")
    await workers.say("small", "s2", state="starting")
    small, large = await figures(bus, "small"), await figures(bus, "large")
    assert (small.name, small.aliases, small.workers) == ("Small", ["fast"], 1)
    assert (large.workers, large.samples, large.p95_ttft_ms) == (0, 0, None)
    assert router.report()["models"] == [msgspec.to_builtins(one) for one in (small, large)]
