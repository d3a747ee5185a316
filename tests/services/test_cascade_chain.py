"""A cascade through the real router, workers and orchestrator: a small model that is not sure, and a better one."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from replica_rig import ASK, events_of, notes, text
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.messages.chat import CHAT
from hasten.messages.generate import GENERATE
from hasten.messages.route import ROUTE
from hasten.models import EngineConfig, Model
from hasten.nats_server import NatsServer
from hasten.orchestrator.service import build
from hasten.orchestrator.settings import Settings
from hasten.router.service import build as router_of
from hasten.router.settings import Settings as RouterSettings
from hasten.worker.service import build as worker_of
from hasten.worker.settings import Settings as WorkerSettings

SMALL_SAYS, BETTER_SAYS = "Perhaps at noon, or at six.", "Twice a day, with the moon."


def model(name: str, answer: str, logprob: float, quality: float) -> Model:
    engine = EngineConfig(kind="sim", sim_answer=answer, sim_logprob=logprob, sim_decode_per_s=1e4)
    return Model(name=name, slug=name, engine=engine, quality=quality, cost_per_1k_completion=quality)


@pytest_asyncio.fixture
async def client(bus: Bus, nats_server: NatsServer) -> AsyncIterator[Bus]:
    models = [model("small", SMALL_SAYS, -2.5, 0.3), model("better", BETTER_SAYS, -0.1, 0.9)]
    units: list[Any] = [
        Scripted(bus, real=(ROUTE, GENERATE)),
        router_of(RouterSettings(gone_s=60), bus, models),
        *(worker_of(WorkerSettings(worker=one.slug, model=one.slug), bus, models) for one in models),
        build(Settings(exact_wait_ms=20, again_s=0, cascade="hold"), bus),
    ]
    for unit in units:
        await unit.start()
    made = await Bus.connect(nats_server.url, name="client")
    yield made
    await made.close()
    for unit in reversed(units):
        await unit.close()


async def ask(client: Bus, **options: Any) -> list[Any]:
    return await events_of(await client.stream(CHAT, {**ASK, "cache": {"mode": "exact"}, **options}, tenant="acme"))


async def test_an_answer_that_its_model_doubts_is_replaced_by_a_better_models(client: Bus) -> None:
    events = await ask(client)
    assert (text(events), events[-1].model) == (BETTER_SAYS, "better")
    note = notes(events)["cascade"]
    assert (note["model"], note["escalated"], note["reason"], note["mean_logprob"]) == ("small", True, "unsure", -2.5)
    assert notes(events)["route"]["model"] == "better"


async def test_a_model_that_was_asked_for_is_taken_at_its_word(client: Bus) -> None:
    events = await ask(client, model="small")
    assert (text(events), "cascade" in notes(events)) == (SMALL_SAYS, False)
