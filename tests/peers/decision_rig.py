"""Facts that a test of the decision makes up, and what is decided by them."""

from typing import Any

from hasten.messages.failure import Failure
from hasten.messages.route import Route
from hasten.models import Model
from hasten.router.decision import Decision, decide
from hasten.router.options import Snapshot
from hasten.router.settings import Settings
from hasten.router.window import Latency
from hasten.router.workers import Load

POLICY = Settings()
EASY, HARD = "What is the price of the Basic plan?", "Explain why and compare the trade-offs."


def model(name: str, **fields: Any) -> Model:
    return Model(name=name, slug=name, **{"quality": 0.5, "ttft_prior_ms": 500.0, **fields})


def facts(*models: Model, loads: dict[str, list[Load]] | None = None, **latencies: Latency) -> Snapshot:
    """A snapshot where every model has one idle worker, `<name>-1`, unless `loads` says otherwise."""
    idle = {one.slug: [Load(name=f"{one.slug}-1", slots=4)] for one in models}
    return Snapshot(models=models, loads=idle | (loads or {}), latencies=latencies)


def known(p50: float, p95: float | None = None) -> Latency:
    return Latency(p50, p95 or p50, 1000, True)


def choose(
    snapshot: Snapshot, text: str = EASY, *, key: str = "k", policy: Settings = POLICY, **fields: Any
) -> Decision:
    decided = decide(Route(text=text, **fields), key, snapshot, policy)
    assert isinstance(decided, Decision), decided
    return decided


def refuse(snapshot: Snapshot, text: str = EASY, **fields: Any) -> Failure:
    decided = decide(Route(text=text, **fields), "k", snapshot, POLICY)
    assert isinstance(decided, Failure)
    return decided


SMALL = model("small", quality=0.4, cost_per_1k_completion=0.1)
LARGE = model("large", quality=0.7, cost_per_1k_completion=1.0)
