"""What is wrong with a system by what its services say, and what to do about it."""

from typing import Any

import pytest

from hasten.commands.diagnosis import LATE, NEEDED, Problem, problems
from hasten.discovery import Running
from hasten.messages.route import ModelInfo, WorkerInfo

URL = "nats://bus:4222"


def running(name: str, version: str = "1.0", **data: Any) -> Running:
    return Running(name=name, id=f"{name}-id-0", version=version, data=data)


def whole() -> list[Running]:
    return [running(name) for name in NEEDED]


def of(services: list[Running], models: list[ModelInfo] | None = None, **options: Any) -> list[Problem]:
    return problems(services, models or [ModelInfo(name="m", slug="m", workers=1)], URL, **options)


def test_a_whole_system_has_none() -> None:
    assert of(whole()) == []


@pytest.mark.parametrize("name", NEEDED)
def test_a_service_that_is_not_there_is_missing_unless_it_is_not_meant_to_be(name: str) -> None:
    services = [one for one in whole() if one.name != name]
    (found,) = of(services)
    assert (found.level, found.do) == ("missing", f"hasten run {name} --nats {URL}")
    assert of(services, without=[name]) == []


def test_nothing_at_all_misses_every_service() -> None:
    assert {one.level for one in of([], [])} == {"missing"}
    assert len(of([], [])) == len(NEEDED)


def test_a_model_without_a_ready_worker_is_missing() -> None:
    (found,) = of(whole(), [ModelInfo(name="m", slug="m", workers=1), ModelInfo(name="big", slug="big")])
    assert (found.level, "--model big" in found.do) == ("missing", True)


@pytest.mark.parametrize(
    ("services", "models", "words"),
    [
        ([running("worker", state="down", worker="w1", model="m")], [], "w1 is down"),
        ([running("cache", hit_rate_alarm=True)], [], "hit rate by meaning"),
        ([running("cache", version="2.0")], [], "1.0, 2.0"),
        ([running("cache", applied=5), running("orchestrator", applied=6 + LATE)], [], "changes behind"),
        (
            [],
            [ModelInfo(name="m", slug="m", workers=1, each=[WorkerInfo(name="w1", breaker="open")])],
            "w1 of m has failed",
        ),
    ],
)
def test_what_deserves_a_look_is_a_warning(services: list[Running], models: list[ModelInfo], words: str) -> None:
    (found,) = of([*whole(), *services], models)
    assert found.level == "warning"
    assert words in found.what
    assert found.means
    assert found.do


def test_replicas_that_are_nearly_as_far_are_well() -> None:
    assert of([*whole(), running("cache", applied=5), running("orchestrator", applied=5 + LATE)]) == []


def test_what_is_missing_comes_first() -> None:
    services = [running("cache", hit_rate_alarm=True), *[one for one in whole() if one.name != "router"]]
    assert [one.level for one in of(services)] == ["missing", "warning"]
