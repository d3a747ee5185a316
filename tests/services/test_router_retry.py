"""A request that failed and is asked again under its id goes to another model or worker, where there is one."""

from collections.abc import AsyncIterator

import pytest_asyncio
from patience import until
from router_rig import EASY, Attempts, Workers

from hasten.bus import Bus
from hasten.messages.route import ROUTE, Route, Routed
from hasten.models import model_table
from hasten.router.service import Router, build
from hasten.router.settings import Settings

TABLE = model_table({"models": [{"name": name, "ttft_prior_ms": 400.0} for name in ("a", "b")]})
"""Two models that are equally good."""


@pytest_asyncio.fixture
async def router(bus: Bus) -> AsyncIterator[Router]:
    made = build(Settings(gone_s=900, settle_ms=0, probe_share=0), bus, TABLE)
    await made.start()
    for slug in "ab":
        for number in (1, 2):
            await Workers(bus).say(slug, f"{slug}-{number}", slots=500)
    await until(lambda: [model["workers"] for model in made.report()["models"]] == [2, 2])
    yield made
    await made.close()


async def route(bus: Bus, request_id: str, model: str = "auto", tenant: str = "acme") -> Routed:
    wanted = Route(text=EASY, model=model, request_id=request_id)
    reply = await bus.request(ROUTE, wanted, tenant=tenant, request_id=f"flight-{request_id}")
    assert isinstance(reply, Routed)
    return reply


async def test_a_retry_avoids_the_model_and_else_the_worker_that_failed(bus: Bus, router: Router) -> None:
    await Attempts(bus).say(1, "a", worker="a-1", outcome="incomplete", request="acme/r1")
    await until(lambda: bool(router._failures._failed))
    assert {(await route(bus, "r1")).model for _ in range(6)} == {"b"}
    assert {(await route(bus, "r1", model="a")).worker for _ in range(6)} == {"a-2"}
    for tenant, request_id in (("globex", "r1"), ("acme", "r2")):
        assert "a-1" in {(await route(bus, request_id, model="a", tenant=tenant)).worker for _ in range(6)}


async def test_what_failed_is_asked_again_where_there_is_nothing_else(bus: Bus, router: Router) -> None:
    for number in (1, 2):
        await Attempts(bus, f"o{number}").say(1, "a", worker=f"a-{number}", outcome="incomplete", request="acme/r1")
    await until(lambda: len(next(iter(router._failures._failed.values()), (0, []))[1]) == 2)
    assert (await route(bus, "r1", model="a")).model == "a"
