"""The router on a real NATS server, fed with the events that workers and orchestrators publish."""

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
import pytest_asyncio
from patience import until
from router_rig import EASY, HARD, Attempts, Workers, ask, figures, samples

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.chat import FINISHED, Finished
from hasten.messages.failure import Failure
from hasten.messages.route import ROUTE, Route, Routed
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


@pytest_asyncio.fixture
async def router(bus: Bus) -> AsyncIterator[Router]:
    made = build(Settings(probe_share=0, gone_s=60), bus, TABLE)
    await made.start()
    yield made
    await made.drain()
    await made.close()


@pytest_asyncio.fixture
async def workers(bus: Bus) -> Workers:
    return Workers(bus)


@pytest_asyncio.fixture
async def attempts(bus: Bus) -> Attempts:
    return Attempts(bus)


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
    assert "rule_reasoning" in hard.features
    assert hard.reason.startswith("Large ")


async def test_a_router_that_has_just_started_waits_for_the_first_word(bus: Bus, workers: Workers) -> None:
    router = build(Settings(settle_ms=60_000, gone_s=60), bus, TABLE)
    await router.start()
    asked = asyncio.create_task(ask(bus, model="Large"))
    await asyncio.sleep(0.05)
    await workers.say("small", "s1")
    await asyncio.sleep(0.05)
    assert not asked.done(), "the first word was of another model"
    await workers.say("large", "l1")
    assert isinstance(await asked, Routed)
    await router.close()


async def test_nobody_there_is_unavailable_after_a_short_wait_and_then_at_once(bus: Bus) -> None:
    router = build(Settings(settle_ms=300), bus, TABLE)
    started = time.monotonic()
    await router.start()
    for _ in range(2):
        refused = await ask(bus)
        assert isinstance(refused, Failure)
        assert (refused.code, refused.retry_after_ms) == ("unavailable", 1000)
        assert time.monotonic() - started >= 0.3
    await router.close()


async def test_the_first_wait_respects_the_deadline(bus: Bus) -> None:
    router = build(Settings(settle_ms=60_000), bus, TABLE)
    await router.start()
    reply = await bus.request(ROUTE, Route(text=EASY), deadline_ms=now_ms() + 150, tenant="acme")
    assert isinstance(reply, Failure)
    assert reply.code == "deadline"
    await router.close()


async def announced(bus: Bus, workers: Workers, name: str) -> float:
    """Lets a worker speak until a request is sent to it; returns a time just before its last word."""
    while True:
        before = time.monotonic()
        await workers.say("small", name)
        if isinstance(reply := await ask(bus), Routed):
            assert reply.worker == name
            return before


async def test_a_silent_worker_leaves_within_two_seconds_and_one_that_drains_at_once(
    bus: Bus, workers: Workers
) -> None:
    router = build(Settings(settle_ms=0), bus, TABLE)
    await router.start()
    started = await announced(bus, workers, "silent")
    while isinstance(await ask(bus), Routed):
        await asyncio.sleep(0.05)
        assert time.monotonic() - started < 20, "still routed to a worker that is gone"
    assert time.monotonic() - started >= 1.5, "a worker is not gone after one missed status"
    await announced(bus, workers, "s2")
    await workers.say("small", "s2", state="draining")
    assert (await ask(bus)).code == "unavailable"
    await router.close()


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


async def test_measured_latencies_move_the_choice_and_hits_do_not(
    bus: Bus, router: Router, workers: Workers, attempts: Attempts
) -> None:
    """A hit says nothing of the model that once made the answer."""
    await workers.say("small", "s1")
    await workers.say("large", "l1")
    hit = Finished(source="o1", seq=1, request_id="r1", outcome="done", slug="small", cache="exact", ttft_ms=9000.0)
    await bus.publish(FINISHED, hit, tenant="acme")
    assert (await figures(bus, "small")).samples == 0
    assert (await ask(bus, latency_budget_ms=1000)).model == "Small"
    await attempts.say(50, "small", ttft_ms=3000.0, total_ms=9000.0)
    await until(lambda: samples(router, "small") == 50)
    measured = await figures(bus, "small")
    assert (measured.samples, measured.p50_ttft_ms, measured.p95_ttft_ms) == (50, 3000, 3000)
    assert (await ask(bus, latency_budget_ms=1000)).model == "Large"
    small, large = await ask(bus, model="Small"), await ask(bus, model="Large")
    assert (small.p95_ttft_ms, large.p95_ttft_ms) == (3000, 0), "a prior is no measurement to hedge by"


async def test_failing_fast_does_not_look_good(bus: Bus, router: Router, workers: Workers, attempts: Attempts) -> None:
    """Also when each request was answered by another model in the end."""
    await workers.say("small", "s1")
    await workers.say("large", "l1")
    await attempts.say(30, "small", outcome="upstream", total_ms=2.0)
    await until(lambda: samples(router, "small") == 30)
    assert (await ask(bus, latency_budget_ms=1000)).model == "Large"


async def test_events_of_unknown_models_and_broken_ones_change_nothing(
    bus: Bus, router: Router, workers: Workers, attempts: Attempts
) -> None:
    await workers.say("nobody", "n1")
    await bus.client.publish("hasten.v1.status.small.s1", b'{"seq": "x"}')
    await bus.client.publish("hasten.v1.attempted.small", b"[]")
    await bus.client.publish("hasten.v1.sent.small.s1", b"{}")
    await attempts.say(3, "nobody", ttft_ms=1.0)
    await workers.say("small", "s1")
    assert (await ask(bus)).worker == "s1"


async def test_models_lists_the_table_with_live_figures(bus: Bus, router: Router, workers: Workers) -> None:
    await workers.say("small", "s1")
    await workers.say("small", "s2", state="starting")
    small, large = await figures(bus, "small"), await figures(bus, "large")
    assert (small.name, small.aliases, small.workers) == ("Small", ["fast"], 1)
    assert (large.workers, large.samples, large.p95_ttft_ms) == (0, 0, None)
    assert router.report()["models"] == [msgspec.to_builtins(one) for one in (small, large)]
