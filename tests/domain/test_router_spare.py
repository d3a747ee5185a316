"""What a second attempt asks of the router: an idle worker for a slow first token, a better model for a bad answer."""

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


SMALL, LARGE, HUGE = (
    Model(name=name, slug=name, quality=quality, cost_per_1k_completion=quality)
    for name, quality in (("small", 0.3), ("large", 0.6), ("huge", 0.9))
)


def above(name: str, *models: Model, **fields: Any) -> Decision | Failure:
    loads = {model.slug: [Load(name=f"{model.slug}-1", slots=4)] for model in models}
    facts = Snapshot(models=models, loads=loads, latencies={})
    return decide(Route(text="Hi", above=name, **fields), "k", facts, Settings())


def test_a_better_model_is_asked_for_when_an_answer_was_not_good_enough() -> None:
    found = above("small", HUGE, SMALL, LARGE)
    assert isinstance(found, Decision)
    assert found.option.model == LARGE, "the cheapest of the better ones"
    last = above("large", SMALL, LARGE, HUGE)
    assert isinstance(last, Decision)
    assert last.option.model == HUGE


def test_there_is_nothing_better_than_the_best() -> None:
    for models in ((SMALL, LARGE), (LARGE,)):
        found = above("large", *models)
        assert isinstance(found, Failure)
        assert (found.code, found.param) == ("model_not_found", "above")
    assert isinstance(above("large", SMALL, LARGE, HUGE, exclude=["huge-1"]), Failure)
