"""What the router does when a model hangs, fails or is not measured, and when all that could answer cool down."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest_asyncio
from patience import until
from router_rig import EASY, Attempts, Workers, ask, figures, samples

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.failure import Failure
from hasten.messages.route import ROUTE, Route, Routed
from hasten.models import model_table
from hasten.router.service import Router, build
from hasten.router.settings import Settings

ROW = {"ttft_prior_ms": 400.0, "context_window": 100_000}
TABLE = model_table({"models": [{"name": name, **ROW} for name in ("a", "b")]})
Start = Callable[..., Awaitable[Router]]
OPEN_S = 600.0


@pytest_asyncio.fixture
async def start(bus: Bus) -> AsyncIterator[Start]:
    made: list[Router] = []

    async def one(**policy: Any) -> Router:
        plain = {"gone_s": 900, "settle_ms": 0, "probe_share": 0, "breaker_open_s": OPEN_S, "breaker_most_s": OPEN_S}
        made.append(build(Settings(**{**plain, **policy}), bus, TABLE))
        await made[-1].start()
        for slug in "ab":
            await Workers(bus).say(slug, f"{slug}-1", slots=500)
        return made[-1]

    yield one
    for router in made:
        await router.close()


async def fails(bus: Bus, router: Router, slug: str, back_in_s: float) -> None:
    """Three failures at the model's only worker, so long ago that it is tried again `back_in_s` from now."""
    ago_ms = (OPEN_S - back_in_s) * 1000
    await Attempts(bus, f"o-{slug}").say(3, slug, worker=f"{slug}-1", outcome="upstream", ago_ms=ago_ms)
    await until(lambda: state(router, slug) != "closed")


def state(router: Router, slug: str) -> str:
    models: list[dict[str, Any]] = router.report()["models"]
    return next(str(one.get("breaker", "closed")) for one in models if one["slug"] == slug)


async def shares(bus: Bus, count: int = 60) -> Counter[str]:
    return Counter([(await ask(bus, request_id=f"r{number}")).model for number in range(count)])


async def test_a_model_that_hangs_loses_its_share_before_any_request_has_ended(bus: Bus, start: Start) -> None:
    """The age of what is in flight is a lower bound of the latency."""
    router = await start()
    attempts = Attempts(bus)
    await attempts.say(40, "a", ttft_ms=200.0)
    await attempts.say(40, "b", ttft_ms=210.0)
    await until(lambda: (samples(router, "a"), samples(router, "b")) == (40, 40))
    assert min((await shares(bus)).values()) > 10, "near-equals are spread"
    await Workers(bus).say("a", "a-1", started_ms=2, slots=500, active=3, oldest_ms=2500.0, late_ms=2400.0)
    await until(lambda: router.report()["models"][0]["each"][0].get("oldest_ms") == 2500)
    assert await shares(bus) == {"b": 60}
    assert samples(router, "a") == 40, "and none has ended"


async def test_a_slow_starter_with_long_answers_does_not_look_fast(bus: Bus, start: Start) -> None:
    """By time per token `b` would win."""
    router = await start()
    attempts = Attempts(bus)
    await attempts.say(40, "a", ttft_ms=700.0, total_ms=900.0)
    await attempts.say(40, "b", ttft_ms=2600.0, total_ms=9000.0)
    await until(lambda: (samples(router, "a"), samples(router, "b")) == (40, 40))
    assert await shares(bus) == {"a": 60}


async def test_what_was_measured_hours_ago_is_unknown_again_and_gets_a_few_probes(bus: Bus, start: Start) -> None:
    """Samples age out by time, and whatever became healthy again is noticed."""
    router = await start(probe_share=0.05, max_probes=2, probe_s=900)
    attempts = Attempts(bus)
    await attempts.say(40, "a", ttft_ms=400.0)
    await attempts.say(40, "b", ttft_ms=9000.0, ago_ms=7_200_000)
    await attempts.say(1, "a", ttft_ms=400.0)
    await until(lambda: samples(router, "a") == 41)
    assert (await figures(bus, "b")).p95_ttft_ms is None
    replies = [await ask(bus, request_id=f"r{number}", latency_budget_ms=1500) for number in range(150)]
    assert Counter(reply.model for reply in replies) == {"a": 148, "b": 2}


async def test_two_long_prompts_go_to_different_workers(bus: Bus, start: Start) -> None:
    """What counts is the work that waits, not how many requests do."""
    await start()
    await Workers(bus).say("a", "a-2", slots=500)
    long = [(await ask(bus, model="a", prompt_tokens=21_000)).worker for _ in range(2)]
    assert set(long) == {"a-1", "a-2"}


async def test_what_fails_fast_is_no_longer_asked_and_what_was_shown_says_why(bus: Bus, start: Start) -> None:
    """Failures are slow samples, and they open the breaker."""
    router = await start()
    await fails(bus, router, "a", back_in_s=500)
    assert await shares(bus, 20) == {"b": 20}
    shown = await figures(bus, "a")
    assert (shown.breaker, shown.each[0].breaker, shown.workers) == ("open", "open", 1)
    assert 0 < shown.each[0].cooling_ms <= 500_000
    assert shown.error_rate == 1.0
    assert shown.age_s is not None
    assert shown.age_s >= 100


async def test_when_all_cool_down_the_soonest_to_be_back_is_a_field(bus: Bus, start: Start) -> None:
    """At once, where it would be too long to wait."""
    router = await start()
    await fails(bus, router, "a", back_in_s=500)
    await fails(bus, router, "b", back_in_s=300)
    refused = await ask(bus)
    assert isinstance(refused, Failure)
    assert refused.code == "overloaded"
    assert refused.retry_after_ms is not None
    assert 100_000 < refused.retry_after_ms <= 300_000


async def test_a_request_waits_for_the_first_to_be_back_if_that_is_soon(bus: Bus, start: Start) -> None:
    """3 s would be well within its deadline of 8."""
    router = await start(wait_ms=60_000)
    await fails(bus, router, "a", back_in_s=500)
    await fails(bus, router, "b", back_in_s=1.5)
    routed = await ask(bus)
    assert isinstance(routed, Routed)
    assert routed.model == "b"


async def test_a_pause_that_a_worker_was_asked_for_is_waited_for_like_any_other(bus: Bus, start: Start) -> None:
    router = await start(wait_ms=60_000)
    for slug, pause_ms in (("b", 1500.0), ("a", 400_000.0)):
        await Workers(bus).say(slug, f"{slug}-1", seq=9, slots=500, pause_ms=pause_ms)
    await until(lambda: router.report()["models"][0]["each"][0].get("cooling_ms", 0) > 0)
    routed = await ask(bus)
    assert isinstance(routed, Routed)
    assert routed.model == "b"


async def test_nobody_waits_beyond_the_deadline(bus: Bus, start: Start) -> None:
    router = await start(wait_ms=600_000)
    for slug in "ab":
        await fails(bus, router, slug, back_in_s=500)
    refused = await bus.request(ROUTE, Route(text=EASY), tenant="acme", deadline_ms=now_ms() + 60_000)
    assert isinstance(refused, Failure)
    assert refused.code == "overloaded", "and not: deadline"


async def test_no_more_than_a_few_wait(bus: Bus, start: Start) -> None:
    router = await start(wait_ms=600_000, parked=2)
    for slug in "ab":
        await fails(bus, router, slug, back_in_s=500)

    async def wait() -> Any:
        return await bus.request(ROUTE, Route(text=EASY), tenant="acme", deadline_ms=now_ms() + 900_000)

    asked = [asyncio.ensure_future(wait()) for _ in range(5)]
    await until(lambda: sum(one.done() for one in asked) == 3)
    assert {one.result().code for one in asked if one.done()} == {"overloaded"}
    await router.close()
    ended = await asyncio.gather(*asked)
    assert sorted(one.code for one in ended) == ["draining"] * 2 + ["overloaded"] * 3


async def test_one_outlier_bans_no_model(bus: Bus, start: Start) -> None:
    router = await start()
    attempts = Attempts(bus)
    await attempts.say(30, "a", ttft_ms=200.0)
    await attempts.say(1, "a", ttft_ms=60_000.0)
    await attempts.say(31, "b", ttft_ms=230.0)
    await until(lambda: (samples(router, "a"), samples(router, "b")) == (31, 31))
    assert set(await shares(bus)) == {"a", "b"}
    assert (await ask(bus, latency_budget_ms=500, model="a")).over_budget is False


async def test_a_choice_over_the_budget_is_flagged(bus: Bus, start: Start) -> None:
    router = await start()
    attempts = Attempts(bus)
    await attempts.say(20, "a", ttft_ms=3000.0)
    await attempts.say(20, "b", ttft_ms=2000.0)
    await until(lambda: (samples(router, "a"), samples(router, "b")) == (20, 20))
    routed = await ask(bus, latency_budget_ms=500)
    assert (routed.model, routed.over_budget) == ("b", True)
    assert routed.confidence < (await ask(bus, latency_budget_ms=9000)).confidence
