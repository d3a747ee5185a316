"""What an orchestrator reports whose clock is ahead counts now, for who hears it and for who reads of it later."""

from collections.abc import AsyncIterator

import pytest_asyncio
from patience import until
from router_rig import Attempts, Workers, ask, samples

from hasten.bus import Bus
from hasten.messages.route import Routed
from hasten.models import model_table
from hasten.router.service import Router, build
from hasten.router.settings import Settings

TABLE = model_table({"models": [{"name": "a"}]})
HOUR_MS = 3_600_000


@pytest_asyncio.fixture
async def routers(bus: Bus) -> AsyncIterator[list[Router]]:
    made: list[Router] = []
    yield made
    for router in made:
        await router.close()


async def start(bus: Bus, routers: list[Router]) -> Router:
    routers.append(build(Settings(gone_s=900, probe_share=0), bus, TABLE))
    await routers[-1].start()
    return routers[-1]


async def test_a_clock_that_is_ahead_does_not_hide_what_it_measured(bus: Bus, routers: list[Router]) -> None:
    first = await start(bus, routers)
    await Attempts(bus).say(20, "a", ttft_ms=200.0, ago_ms=-HOUR_MS)
    await until(lambda: samples(first, "a") == 20)
    late = await start(bus, routers)
    await until(lambda: samples(late, "a") == 20)
    await Workers(bus).say("a", "w")
    assert isinstance(await ask(bus), Routed)
