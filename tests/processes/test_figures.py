"""A running system as its operator sees it: whole, with every metric that the board and the alerts name."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from patience import PATIENCE_S
from prometheus_client.parser import text_string_to_metric_families
from up_rig import Up, said

from hasten.metrics import metrics

pytestmark = pytest.mark.timeout(300)
ROOT = Path(__file__).parents[2]


async def told(up: Up, *arguments: str, holds: Callable[[int, str], Any]) -> str:
    """What a command says when it holds of its code and text: on a busy machine services may answer it too late."""
    async with asyncio.timeout(2 * PATIENCE_S):
        while True:
            code, text, _ = await said(*arguments, data=up.data)
            if holds(code, text):
                return text


async def test_a_whole_system_exposes_what_the_board_names_and_misses_nothing(up: Up) -> None:
    http, _ = await up.ready()
    assert (await said("ask", "When does the tide rise?", data=up.data))[0] == 0
    async with httpx.AsyncClient() as client:
        families = list(text_string_to_metric_families((await client.get(f"{http}/metrics")).text))
    kinds = {f"{one.name}_total" if one.type == "counter" else one.name: one.type for one in families}
    samples = {sample.name for one in families for sample in one.samples}
    listed = {one.name: one for one in metrics()}
    assert {name: kind for name, kind in kinds.items() if name not in listed} == {}
    assert {name for name, kind in kinds.items() if listed[name].kind != kind} == set()
    exposed = {sample for name in kinds for sample in listed[name].samples}
    queries = (ROOT / "deploy/grafana/hasten.json").read_text() + (ROOT / "deploy/prometheus/alerts.yml").read_text()
    named = {name for name in re.findall(r"\b(?:hasten|process)_[a-z0-9_]+", queries) if "datasource" not in name}
    assert named
    assert named - exposed - set(kinds) == set()
    answered = {
        "hasten_time_to_first_token_seconds_bucket",
        "hasten_worker_generation_tokens_total",
        "hasten_build_info",
    }
    assert answered <= samples
    labels = {label for one in families for sample in one.samples for label in sample.labels}
    assert not {"request_id", "user", "key"} & labels

    status = await told(up, "status", "--json", holds=lambda code, _: code == 0)
    assert json.loads(status)["problems"] == []
    await told(up, "status", holds=lambda _, text: "Nothing is missing." in text)
    await told(up, "top", "--once", "--json", holds=lambda code, text: code == 0 and whole(json.loads(text)))


def whole(frame: dict[str, Any]) -> bool:
    named = {one["name"] for one in frame["services"]}
    return bool(frame["view"].get("models")) and named >= {"gateway", "orchestrator", "cache", "worker"}
