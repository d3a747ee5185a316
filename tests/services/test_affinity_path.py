"""A conversation on the whole path, from orchestrator to simulator: what was computed once is not computed again."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from patience import until

from hasten.bus import Bus
from hasten.client import Hasten
from hasten.compressor.service import build as compressor
from hasten.compressor.settings import Settings as CompressorSettings
from hasten.models import EngineConfig, Model
from hasten.nats_server import NatsServer
from hasten.orchestrator.service import build as orchestrator
from hasten.orchestrator.settings import Settings as OrchestratorSettings
from hasten.router.service import Router
from hasten.router.service import build as router
from hasten.router.settings import Settings as RouterSettings
from hasten.worker.service import build as worker
from hasten.worker.settings import Settings as WorkerSettings

ENGINE = EngineConfig(kind="sim", slots=4, sim_prefill_per_s=20_000, sim_decode_per_s=5000, sim_answer="It is so.")
MODEL = Model(name="m", slug="m", engine=ENGINE, context_window=100_000, token_budget=90_000)
WORDS = 3000
SYSTEM = {"role": "system", "content": " ".join(f"rule{number}" for number in range(WORDS))}


@pytest_asyncio.fixture
async def routers(nats_server: NatsServer, bus: Bus) -> AsyncIterator[list[Router]]:
    """Two routers, three workers, and what else a request without knowledge needs."""
    others = [await Bus.connect(nats_server.url) for _ in range(2)]
    made = [router(RouterSettings(gone_s=60), one, [MODEL]) for one in others]
    parts: list[Any] = [worker(WorkerSettings(worker=f"w{number}"), bus, [MODEL]) for number in range(3)]
    parts += [*made, compressor(CompressorSettings(), bus), orchestrator(OrchestratorSettings(), bus)]
    for part in parts:
        await part.start()
    yield made
    for part in reversed(parts):
        await part.drain()
        await part.close()
    for one in others:
        await one.close()


async def idle(routers: list[Router], asked: int) -> None:
    """Returns when every router knows of all three workers, of all that was asked, and that nothing is left to do."""

    def quiet() -> bool:
        each = [one["models"][0].get("each", []) for one in (router.report() for router in routers)]
        known = all(len(workers) == 3 and sum(one.get("sent", 0) for one in workers) == asked for workers in each)
        return known and not any(one.get("in_flight") for workers in each for one in workers)

    await until(quiet)


async def test_every_turn_of_a_conversation_finds_the_turns_before_it_computed(
    nats_server: NatsServer, routers: list[Router]
) -> None:
    talk: list[dict[str, str]] = [SYSTEM]
    async with Hasten.connect(nats_server.url, tenant="acme") as hasten:
        used, cached = set(), []
        for number in range(4):
            await idle(routers, number)
            talk = [*talk, {"role": "user", "content": f"Question {number}?"}]
            answered = await hasten.ask(talk, cache={"mode": "off"})
            talk = [*talk, {"role": "assistant", "content": answered.text}]
            used.add(answered.notes["route"]["worker"])
            cached.append(answered.usage.cached_tokens)
    assert len(used) == 1
    assert cached[0] == 0
    assert min(cached[1:]) > 0.99 * WORDS
