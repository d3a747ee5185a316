"""Prompts return to the worker that has computed their beginning, whichever replica decides; what fails is left out."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from patience import until
from router_rig import Attempts, Workers, ask, figures

from hasten.bus import Bus
from hasten.messages.chat import ChatRequest, Turn
from hasten.messages.failure import Failure
from hasten.messages.generate import STATUS, Status
from hasten.messages.route import WorkerInfo
from hasten.models import model_table
from hasten.nats_server import NatsServer
from hasten.orchestrator.prefix import prefix_of
from hasten.router.service import Router, build
from hasten.router.settings import Settings

TABLE = model_table({"models": [{"name": "m"}]})
CALM = Settings(gone_s=600, probe_share=0, learn_s=60, probe_s=600, wait_ms=0, arrival_s=0, breaker_open_s=300)
"""No time passes in it that a test would have to keep up with."""
OWN: dict[str, Any] = {"slots": 4, "queue_limit": 64, "cache_tokens": 1_000_000}
NAMES = [f"w{number}" for number in range(4)]
SYSTEM = "You sell plans. " * 300


@pytest_asyncio.fixture
async def replicas(nats_server: NatsServer, bus: Bus) -> AsyncIterator[list[Router]]:
    """Two replicas that know of four idle workers, each on a connection of its own."""
    buses = [await Bus.connect(nats_server.url) for _ in range(2)]
    made = [build(CALM, one, TABLE) for one in buses]
    for router in made:
        await router.start()
    workers = Workers(bus)
    for name in NAMES:
        await workers.say("m", name, **OWN)
    await until(lambda: all(len(_workers(router)) == len(NAMES) for router in made))
    yield made
    for router, connection in zip(made, buses, strict=True):
        await router.close()
        await connection.close()


def _workers(router: Router) -> list[dict[str, Any]]:
    each: list[dict[str, Any]] = router.report()["models"][0].get("each", [])
    return each


def _sent(router: Router) -> Counter[str]:
    return Counter({one["name"]: one.get("sent", 0) for one in _workers(router)})


class Asker:
    """Asks for workers, each time after every replica has heard of the last one."""

    def __init__(self, bus: Bus, replicas: list[Router]) -> None:
        self._bus, self._replicas, self.sent, self._seq = bus, replicas, Counter[str](), 100

    async def ask(self, *turns: str, tenant: str = "acme") -> str:
        roles = ("user", "assistant")
        said = [Turn(role=roles[at % 2], content=text) for at, text in enumerate(turns)]  # type: ignore[arg-type]
        request = ChatRequest(messages=[Turn(role="system", content=SYSTEM), *said])
        size = sum(len(turn.text) for turn in request.messages)
        reply = await ask(self._bus, turns[-1], prefix=prefix_of(tenant, request), prompt_tokens=int(size / 3.5))
        self.sent[reply.worker] += 1
        await until(lambda: all(_sent(router) == self.sent for router in self._replicas))
        return str(reply.worker)

    async def idle(self) -> None:
        """Lets every worker say that it has nothing to do."""
        self._seq += 1
        for name in NAMES:
            status = Status(seq=self._seq, started_ms=1, state="ready", engine="sim", model="m", **OWN)
            await self._bus.publish(STATUS, status, slug="m", worker=name)
        await until(lambda: all(not one.get("in_flight") for router in self._replicas for one in _workers(router)))


async def test_a_conversation_returns_to_its_worker_at_whichever_replica(bus: Bus, replicas: list[Router]) -> None:
    asker = Asker(bus, replicas)
    talks = {number: [f"Question {number}. " + "It is long. " * 200] for number in range(6)}
    first = {number: await asker.ask(*talk) for number, talk in talks.items()}
    for _ in range(4):
        for number, talk in talks.items():
            await asker.idle()
            talk += ["An answer. " * 200, "And then?"]
            assert await asker.ask(*talk) == first[number]
    assert len(set(first.values())) > 1, "talks are spread although all have the same system text"
    assert all(router._service.endpoints[0].num_requests > 0 for router in replicas), "both have answered"


async def test_another_tenant_has_nothing_there(bus: Bus, replicas: list[Router]) -> None:
    asker = Asker(bus, replicas)
    busy = {await asker.ask("One. " * 900) for _ in range(4)}
    assert len(busy) == 1
    assert await asker.ask("One. " * 900, tenant="globex") not in busy, "it goes where less waits"


async def test_a_worker_that_started_anew_has_nothing_any_more(bus: Bus, replicas: list[Router]) -> None:
    asker = Asker(bus, replicas)
    home = await asker.ask("One. " * 900)
    workers = Workers(bus)
    await workers.say("m", home, cache_tokens=1_000_000, started_ms=2, active=30)
    await until(lambda: all(_sent(router)[home] == 0 for router in replicas))
    assert (await ask(bus, prefix={"x": 1}, prompt_tokens=9)).worker != home


async def _each(bus: Bus) -> dict[str, WorkerInfo]:
    return {one.name: one for one in (await figures(bus, "m")).each}


async def _until_known(replicas: list[Router], worker: str, breaker: str) -> None:
    def known(router: Router) -> bool:
        return any(one["name"] == worker and one.get("breaker", "closed") == breaker for one in _workers(router))

    await until(lambda: all(known(router) for router in replicas))


async def test_a_worker_that_fails_gets_no_more_at_any_replica_and_overload_is_no_failure(
    bus: Bus, replicas: list[Router]
) -> None:
    attempts = Attempts(bus)
    for code in ("overloaded", "draining", "bad_request", "cancelled", "deadline"):
        await attempts.say(5, "m", worker="w1", outcome=code)
    await attempts.say(3, "m", worker="w0", outcome="upstream", ago_ms=0)
    await _until_known(replicas, "w0", "open")
    chosen = Counter([(await ask(bus, request_id=f"r{number}")).worker for number in range(40)])
    assert set(chosen) == set(NAMES) - {"w0"}
    each = await _each(bus)
    assert (each["w0"].breaker, each["w1"].breaker) == ("open", "closed")
    assert each["w0"].cooling_ms > 0


async def test_after_a_while_one_request_tries_it_and_a_success_lets_all_in(bus: Bus, replicas: list[Router]) -> None:
    attempts = Attempts(bus)
    await attempts.say(3, "m", worker="w0", outcome="upstream", ago_ms=400_000)
    await _until_known(replicas, "w0", "half_open")
    others = NAMES[1:]
    assert (await ask(bus, exclude=others)).worker == "w0"
    await until(lambda: all(_sent(router)["w0"] == 1 for router in replicas))
    refused = [await ask(bus, exclude=others) for _ in range(8)]
    assert {one.code for one in refused if isinstance(one, Failure)} == {"overloaded"}, "one probe at a time"
    assert all(isinstance(one, Failure) and one.retry_after_ms for one in refused)
    await attempts.say(1, "m", worker="w0", ago_ms=0)
    await _until_known(replicas, "w0", "closed")
    assert (await ask(bus, exclude=others)).worker == "w0"


async def test_when_every_worker_fails_the_answer_says_when_to_come_back(bus: Bus, replicas: list[Router]) -> None:
    attempts = Attempts(bus)
    for name in NAMES:
        await attempts.say(3, "m", worker=name, outcome="upstream", ago_ms=0)
    for name in NAMES:
        await _until_known(replicas, name, "open")
    replies = await asyncio.gather(*(ask(bus) for _ in range(4)))
    assert {one.code for one in replies} == {"overloaded"}
    assert all(0 < one.retry_after_ms <= 300_000 for one in replies)
