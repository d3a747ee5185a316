"""Several replicas of the router, and one that starts anew: all know the same of every model and decide alike."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest_asyncio
from patience import until
from router_rig import Attempts, Workers, ask, figures, samples

from hasten.bus import Bus
from hasten.messages.attempt import ATTEMPTED
from hasten.models import model_table
from hasten.nats_server import NatsServer
from hasten.router.service import Router, build
from hasten.router.settings import Settings

TABLE = model_table({"models": [{"name": name, "ttft_prior_ms": 400.0} for name in ("a", "b", "c")]})
CALM = Settings(gone_s=600, probe_share=0, learn_s=60)
Start = Callable[..., Awaitable[Router]]


@pytest_asyncio.fixture
async def start(nats_server: NatsServer) -> AsyncIterator[Start]:
    """Starts a replica on a connection of its own, as another process would."""
    made: list[tuple[Router, Bus]] = []

    async def one(settings: Settings = CALM) -> Router:
        bus = await Bus.connect(nats_server.url)
        router = build(settings, bus, TABLE)
        made.append((router, bus))
        await router.start()
        return router

    yield one
    for router, bus in made:
        await router.close()
        await bus.close()


async def measured(bus: Bus, *replicas: Router) -> Attempts:
    """Attempts at three models, the last of which is slow, known to every replica."""
    attempts = Attempts(bus)
    for slug, ttft_ms in (("a", 200.0), ("b", 210.0), ("c", 4000.0)):
        await Workers(bus).say(slug, f"{slug}-1", slots=500)
        await attempts.say(40, slug, ttft_ms=ttft_ms, total_ms=5000.0)
    await until(lambda: all(samples(one, slug) == 40 for one in replicas for slug in "abc"))
    await stored(bus, 120)
    return attempts


async def stored(bus: Bus, count: int) -> None:
    """Returns when the stream has so many attempts: it takes what was published a moment later than who listens."""
    async with asyncio.timeout(60):
        while (await bus.js.stream_info("HASTEN_ATTEMPTS")).state.messages != count:
            await asyncio.sleep(0.01)


def speeds(router: Router) -> list[tuple[Any, ...]]:
    fields = ("slug", "p50_ttft_ms", "p95_ttft_ms", "samples", "error_rate")
    return [tuple(one.get(name) for name in fields) for one in router.report()["models"]]


async def choices(bus: Bus, count: int = 40, each: int = 4) -> Counter[str]:
    """What every replica that the queue group finds chooses for the same requests, which have to agree."""
    chosen = Counter[str]()
    for number in range(count):
        models = {(await ask(bus, request_id=f"r{number}", latency_budget_ms=1000.0)).model for _ in range(each)}
        assert len(models) == 1, models
        chosen[models.pop()] += 1
    return chosen


async def test_replicas_that_heard_the_same_decide_alike(bus: Bus, start: Start) -> None:
    replicas = [await start(), await start()]
    await measured(bus, *replicas)
    chosen = await choices(bus)
    assert set(chosen) == {"a", "b"}, "near-equals are spread, and what is too slow gets nothing"
    assert all(one._service.endpoints[0].num_requests > 0 for one in replicas), "both have answered"


async def test_a_replica_that_starts_anew_knows_at_once_what_the_others_know(bus: Bus, start: Start) -> None:
    first, second = await start(), await start()
    attempts = await measured(bus, first, second)
    before = await choices(bus)
    await second.close()
    await attempts.say(7, "a", ttft_ms=260.0, total_ms=300.0)
    await until(lambda: samples(first, "a") == 47)
    await stored(bus, 127)
    again = await start()
    assert [one[3] for one in speeds(again)] == [47, 40, 40]
    await until(lambda: speeds(first) == speeds(again))
    for slug in "abc":
        await Workers(bus).say(slug, f"{slug}-1", slots=500, started_ms=2)
    await until(lambda: all(one["workers"] == 1 for one in again.report()["models"]))
    assert await choices(bus) == before


async def test_when_all_have_stopped_the_next_one_still_knows(bus: Bus, start: Start) -> None:
    only = await start()
    await measured(bus, only)
    known = speeds(only)
    assert known
    await only.close()
    later = await start()
    await until(lambda: speeds(later) == known)


async def test_events_that_were_missed_are_noticed_by_their_numbers_and_read(bus: Bus, start: Start) -> None:
    router = await start()
    attempts = await measured(bus, router)
    memory, listening = router._memory, router._memory._subscription
    assert listening is not None
    await listening.unsubscribe()
    await memory._bus.flush()
    await attempts.say(9, "a", ttft_ms=300.0)
    memory._subscription = await memory._bus.subscribe(ATTEMPTED.pattern, memory._receive)
    await memory._bus.flush()
    await attempts.say(1, "b", ttft_ms=300.0)
    await until(lambda: (samples(router, "a"), samples(router, "b")) == (49, 41))
    assert memory.readings >= 2


async def test_the_stream_keeps_the_latest_of_each_model_alone(bus: Bus, start: Start) -> None:
    router = await start(Settings(window_samples=10, learn_s=60))
    attempts = Attempts(bus)
    await attempts.say(1, "b", ttft_ms=100.0)
    await attempts.say(500, "a", ttft_ms=100.0)
    await until(lambda: samples(router, "a") == 10)
    await stored(bus, 13)
    later = await start(Settings(window_samples=5, learn_s=60))
    assert (samples(later, "a"), samples(later, "b")) == (5, 1)
    assert (await bus.js.stream_info("HASTEN_ATTEMPTS")).config.max_msgs_per_subject == 6, "what was set is kept to"


async def test_without_jetstream_a_replica_starts_and_learns_from_what_it_hears(tmp_path: Path) -> None:
    users = 'accounts { plain { users: [{ user: "u", password: "p" }] } }\nno_auth_user: "u"'
    server = await NatsServer(tmp_path / "store", config=users).start()
    bus = await Bus.connect(server.url)
    router = build(Settings(gone_s=600, learn_s=0.1), bus, TABLE)
    try:
        await router.start()
        await Workers(bus).say("a", "a-1")
        assert (await ask(bus)).model == "a"
        await Attempts(bus).say(40, "a", ttft_ms=900.0)
        await until(lambda: samples(router, "a") == 40)
        assert (await figures(bus, "a")).p95_ttft_ms == 900
    finally:
        await router.close()
        await bus.close()
        await server.stop(kill=True)


async def test_a_burst_sends_few_probes_to_what_nobody_knows(bus: Bus, start: Start) -> None:
    """Over replicas: a probe that one has sent is counted by all, until its attempt has ended."""
    policy = Settings(gone_s=600, probe_share=1.0, max_probes=2, probe_s=600, learn_s=60)
    replicas = [await start(policy), await start(policy)]
    attempts = Attempts(bus)
    for slug in "ab":
        await Workers(bus).say(slug, f"{slug}-1", slots=500)
    await attempts.say(40, "a", ttft_ms=300.0)
    await until(lambda: all(samples(one, "a") == 40 for one in replicas))
    sent = [await ask(bus, request_id=f"p{number}") for number in range(30)]
    probes = [f"p{number}" for number, reply in enumerate(sent) if reply.model == "b"]
    assert len(probes) == 2
    assert all("too little is known" in sent[int(name[1:])].reason for name in probes)
    await attempts.say(1, "b", ttft_ms=8000.0, flight=probes[0], worker="b-1")
    await until(lambda: all(samples(one, "b") == 1 for one in replicas))
    again = [(await ask(bus, request_id=f"q{number}")).model for number in range(30)]
    assert again.count("b") == 1


async def test_a_burst_at_one_replica_sends_no_more_probes_than_allowed(bus: Bus, start: Start) -> None:
    router = await start(Settings(gone_s=600, probe_share=1.0, max_probes=2, probe_s=600, learn_s=60))
    for slug in "ab":
        await Workers(bus).say(slug, f"{slug}-1", slots=500)
    await Attempts(bus).say(40, "a", ttft_ms=300.0)
    await until(lambda: samples(router, "a") == 40)
    sent = await asyncio.gather(*(ask(bus, request_id=f"p{number}") for number in range(100)))
    assert Counter(reply.model for reply in sent) == {"a": 98, "b": 2}
