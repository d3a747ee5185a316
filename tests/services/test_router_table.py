"""A model table that changes while the router runs: costs, qualities, names and budgets count from the next request."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from patience import until
from router_rig import EASY, HARD, Attempts, Workers, ask, figures, listed, samples

from hasten.bus import Bus
from hasten.models import ModelTable, model_table
from hasten.router.service import Router, build
from hasten.router.settings import Settings

ROWS: list[dict[str, Any]] = [
    {"name": "small", "aliases": ["fast"], "quality": 0.4, "cost_per_1k_completion": 0.1, "token_budget": 900},
    {"name": "large", "quality": 0.7, "cost_per_1k_completion": 1.0, "capabilities": ["json"]},
]


def rows(*changed: dict[str, Any]) -> list[Any]:
    return model_table({"models": [{**row, **change} for row, change in zip(ROWS, changed, strict=False)]})


@pytest.fixture
def table() -> ModelTable:
    return ModelTable(rows({}, {}))


@pytest_asyncio.fixture
async def router(bus: Bus, table: ModelTable) -> AsyncIterator[Router]:
    made = build(Settings(probe_share=0, gone_s=600, settle_ms=0), bus, table)
    await made.start()
    for slug in ("small", "large", "new"):
        await Workers(bus).say(slug, f"{slug}-1")
    yield made
    await made.close()


async def test_costs_qualities_and_budgets_apply_to_the_next_request(
    bus: Bus, router: Router, table: ModelTable
) -> None:
    assert [(await ask(bus, text)).model for text in (EASY, HARD)] == ["small", "large"]
    table.replace(rows({"cost_per_1k_completion": 5.0, "token_budget": 300}, {}))
    assert (await ask(bus, EASY)).model == "large"
    assert (await ask(bus, model="fast")).token_budget == 300
    table.replace(rows({"quality": 0.8}, {"quality": 0.5}))
    assert (await ask(bus, HARD)).model == "small"


async def test_names_aliases_and_capabilities_apply_to_the_next_request(
    bus: Bus, router: Router, table: ModelTable
) -> None:
    table.replace(rows({"aliases": ["quick"]}, {"capabilities": ["json", "tools"]}))
    assert (await ask(bus, model="quick")).model == "small"
    gone = await ask(bus, model="fast")
    assert (gone.code, "quick" in gone.detail) == ("model_not_found", True)
    assert (await ask(bus, needs=["tools"])).model == "large"


async def test_a_removed_model_gets_nothing_more_and_a_new_one_is_there(
    bus: Bus, router: Router, table: ModelTable
) -> None:
    """Also when the new one was heard of before its row came: another host may have had the row earlier."""
    attempts = Attempts(bus)
    for slug in ("small", "new"):
        await attempts.say(20, slug, ttft_ms=100.0)
    await until(lambda: samples(router, "small") == 20)
    table.replace(model_table({"models": [{"name": "new", "quality": 0.9}, ROWS[1]]}))
    assert (await ask(bus, model="small")).code == "model_not_found"
    assert (await ask(bus, EASY)).model == "new"
    await until(lambda: samples(router, "new") == 20)
    assert [info.name for info in (await listed(bus)).models] == ["new", "large"]
    table.replace(rows({}, {}))
    assert (await figures(bus, "small")).samples == 20, "what was known of it is still known"


async def test_an_answer_that_lost_its_worker_goes_on_with_a_removed_model(
    bus: Bus, router: Router, table: ModelTable
) -> None:
    await Workers(bus).say("small", "small-2")
    table.replace(rows({}, {})[1:])
    assert (await ask(bus, model="small")).code == "model_not_found"
    going_on = await ask(bus, model="small", exclude=["small-1"])
    assert (going_on.model, going_on.worker) == ("small", "small-2")
    assert (await ask(bus, exclude=["small-1"])).model == "large", "and nobody else gets it"
    table.replace([*table.rows, *model_table({"models": [{"name": "tiny", "aliases": ["fast"]}]})])
    await Workers(bus).say("tiny", "tiny-1")
    assert (await ask(bus, model="fast", exclude=["x"])).model == "tiny", "a name goes to who has it now"


async def test_a_refused_edit_is_told_to_who_lists_the_models(bus: Bus, router: Router, table: ModelTable) -> None:
    assert (await listed(bus)).problem == ""
    table.problem = "hasten.toml, line 7: [[models]], row 1: quality: expected `float`, got `str`"
    told = await listed(bus)
    assert told.problem == table.problem
    assert told.table == table.digest
    assert router.report()["table_problem"] == table.problem
