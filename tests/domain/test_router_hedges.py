"""What the router makes of hedged requests: their losers count as slow, and a second worker has to be idle."""

from typing import Any

import pytest

from hasten.messages.chat import Finished
from hasten.messages.failure import Failure
from hasten.messages.generate import Status
from hasten.messages.route import Route
from hasten.models import Model
from hasten.router.decision import Decision, decide
from hasten.router.knowledge import Knowledge
from hasten.router.options import Snapshot
from hasten.router.settings import Settings
from hasten.router.window import loser_sample
from hasten.router.workers import Load

POLICY = Settings()
MODEL = Model(name="m", slug="m")


def finished(seq: int, ttft_ms: float, **fields: Any) -> Finished:
    told = {"source": "o", "request_id": f"r{seq}", "outcome": "done", "slug": "m", "worker": "b"}
    return Finished(seq=seq, worker_ttft_ms=ttft_ms, **told | fields)


@pytest.mark.parametrize(
    ("fields", "sample"),
    [
        ({}, None),
        ({"loser": "a", "loser_ms": 900.0}, 900.0),
        ({"loser": "a", "loser_ms": 400.0}, None),
        ({"loser": "a", "loser_ms": 900.0, "cache": "shared"}, None),
    ],
)
def test_a_loser_counts_as_a_lower_bound(fields: dict[str, Any], sample: float | None) -> None:
    assert loser_sample(finished(1, 50.0, **fields), 500.0) == sample


def test_hedging_does_not_hide_a_tail_from_the_p95() -> None:
    """A tenth of the calls is slow: hedged, they are all answered in 60 ms, and the P95 still says what they were."""
    knowledge = Knowledge([MODEL], POLICY)
    for at in range(1000):
        slow = at % 10 == 9
        fields = {"loser": "a", "loser_ms": 900.0} if slow and at > 200 else {}
        knowledge.finished(finished(at + 1, 900.0 if slow and not fields else 60.0, **fields), at / 10)
    (info,) = knowledge.models(100.0)
    assert (info.p50_ttft_ms, info.p95_ttft_ms) == (60.0, 900.0)


def test_the_loser_is_no_longer_counted_at_its_worker() -> None:
    knowledge = Knowledge([MODEL], POLICY)
    for worker in ("a", "b"):
        knowledge.status("m", worker, Status(seq=1, started_ms=1, state="ready", engine="sim", model="m"), 0.0)
        knowledge.sent("m", worker, 10, 0.01)
    knowledge.finished(finished(1, 50.0, loser="a", loser_ms=900.0), 0.02)
    assert [load.in_flight for load in knowledge.snapshot(0.03).loads["m"]] == [0, 0]


def decided(loads: list[Load], **fields: Any) -> Decision | Failure:
    return decide(Route(text="Why?", **fields), "k", Snapshot(models=[MODEL], loads={"m": loads}, latencies={}), POLICY)


def test_a_second_attempt_goes_to_an_idle_worker_or_nowhere() -> None:
    busy, idle = Load(name="busy", slots=2, in_flight=2), Load(name="idle", slots=2, in_flight=1)
    found = decided([busy, idle], spare=True, exclude=["first"])
    assert isinstance(found, Decision)
    assert found.option.load.name == "idle"
    assert isinstance(decided([busy]), Decision), "a queue is good enough for a first attempt"
    nowhere = decided([busy], spare=True)
    assert isinstance(nowhere, Failure)
    assert nowhere.code == "overloaded"
