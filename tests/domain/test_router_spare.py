"""A second attempt at a slow first token goes to an idle worker or nowhere, and what it cuts short is not forgotten."""

from typing import Any

from hasten.messages.attempt import Attempted
from hasten.messages.failure import Failure
from hasten.messages.route import Route
from hasten.models import Model
from hasten.router.decision import Decision, decide
from hasten.router.options import Snapshot
from hasten.router.settings import Settings
from hasten.router.window import Window
from hasten.router.workers import Load

MODEL = Model(name="m", slug="m")


def decided(loads: list[Load], **fields: Any) -> Decision | Failure:
    facts = Snapshot(models=[MODEL], loads={"m": loads}, latencies={})
    return decide(Route(text="Why?", **fields), "k", facts, Settings())


def test_a_second_attempt_goes_to_an_idle_worker_or_nowhere() -> None:
    busy, idle = Load(name="busy", slots=2, in_flight=2), Load(name="idle", slots=2, in_flight=1)
    found = decided([busy, idle], spare=True, exclude=["first"])
    assert isinstance(found, Decision)
    assert found.option.load.name == "idle"
    assert isinstance(decided([busy]), Decision), "a queue is good enough for a first attempt"
    nowhere = decided([busy], spare=True)
    assert isinstance(nowhere, Failure)
    assert nowhere.code == "overloaded"


def test_hedging_does_not_hide_a_tail_from_the_p95() -> None:
    """A tenth of the calls is slow. Hedged at 300 ms, all are answered soon; the P95 stays beyond that moment."""
    window, seq = Window(), 0
    for call in range(900):
        seconds = 1000.0 + call / 10
        if call % 10 == 9:
            seq += 1
            lost: dict[str, Any] = {"outcome": "cancelled", "total_ms": 360.0}
            window.add(Attempted(source="o", seq=seq, at_ms=1000 * seconds, flight="f", worker="slow", **lost))
        seq += 1
        done: dict[str, Any] = {"outcome": "done", "ttft_ms": 60.0, "total_ms": 90.0}
        window.add(Attempted(source="o", seq=seq, at_ms=1000 * seconds + 1, flight="f", worker="quick", **done))
    latency = window.latency(500.0, 1091.0)
    assert (latency.p50_ms, latency.p95_ms) == (60.0, 360.0)
