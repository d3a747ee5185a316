"""Decides which model and which worker answer a request; pure, so that replicas with the same facts decide alike."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from hasten.messages.failure import Failure
from hasten.messages.route import Route
from hasten.models import Model
from hasten.router.difficulty import Difficulty, estimate
from hasten.router.options import AUTO, Option, Snapshot, able, named, option, ranked, usable, wide
from hasten.router.settings import Settings
from hasten.router.workers import Usual, draw

Kind = Literal["named", "cheapest", "probe", "below_floor", "over_budget"]
_CONFIDENCE: dict[Kind, float] = {"named": 1.0, "cheapest": 0.9, "probe": 0.6, "below_floor": 0.5, "over_budget": 0.3}
"""What the kind of a choice is worth before doubts are taken off; the README explains the scale."""
_SAYS: dict[Kind, str] = {
    "named": "was asked for",
    "cheapest": "is the cheapest of {choices} that is good and fast enough",
    "probe": "is tried because too little is known of its speed",
    "below_floor": "is the best in time of {choices}, though below the quality wanted",
    "over_budget": "is the fastest of {choices}, none being within the latency budget",
}
_EDGE = 0.05
"""A difficulty this close to the start of a floor could as well be on its other side."""
_SOON_MS, _LATE_MS = 100, 10_000


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The choice: an option, what kind of choice it was, one sentence of reason, and how sure we are (0 to 1)."""

    option: Option
    kind: Kind
    reason: str
    confidence: float
    difficulty: Difficulty


def decide(request: Route, key: str, snapshot: Snapshot, policy: Settings) -> Decision | Failure:
    """The model and worker for a request, or why there is none.

    Wanted: every capability, a window that holds the request, the quality that its difficulty asks for, a first token
    within the latency budget, and then the least cost. What cannot be had is given up in this order: quality (the best
    within the budget), then the budget (the fastest). A model asked for by name is taken as it is. `key` names the
    request: it spreads equals, the same way on every replica. Failures: model_not_found, unsupported,
    context_overflow, and with `retry_after_ms` overloaded and unavailable.
    """
    models: Sequence[Model] | Failure = named(request.model, snapshot.models)
    if not isinstance(models, Failure):
        models = able(models, request.needs, snapshot.loads)
    if not isinstance(models, Failure):
        models = wide(models, request, policy)
    if isinstance(models, Failure):
        return models
    found = [made for model in models if (made := option(model, request, key, snapshot, policy)) is not None]
    if not found:
        return _nowhere(models, request, snapshot, policy)
    difficulty = estimate(request.text, request.turns)
    order = ranked([one for one in found if one.fits] or found, key, policy)
    budget_ms = policy.latency_budget_ms if request.latency_budget_ms is None else request.latency_budget_ms
    kind, chosen = _choose(order, request, key, floor_of(difficulty.score, policy), budget_ms, policy)
    late = budget_ms is not None and chosen.slow_ms > budget_ms
    return Decision(
        option=chosen,
        kind=kind,
        reason=_reason(kind, chosen, len(order), difficulty, budget_ms),
        confidence=_confidence(kind, chosen, difficulty, late, policy),
        difficulty=difficulty,
    )


def floor_of(difficulty: float, policy: Settings) -> float:
    """The quality that a model needs for this difficulty."""
    return max((quality for start, quality in policy.floors if difficulty >= start), default=0.0)


def _choose(
    order: Sequence[Option], request: Route, key: str, floor: float, budget_ms: float | None, policy: Settings
) -> tuple[Kind, Option]:
    if request.model != AUTO:
        return "named", order[0]
    timely = [one for one in order if budget_ms is None or one.slow_ms <= budget_ms]
    good = [one for one in timely if one.model.quality >= floor]
    if good:
        best = next((one for one in good if one.measured), good[0])
        probes = good if any(one.measured for one in order) else []
        probed = next((one for one in probes if _probes(one, key, policy)), best)
        return ("cheapest" if probed is best else "probe"), probed
    if timely:
        return "below_floor", max(timely, key=lambda one: one.model.quality)
    return "over_budget", min(order, key=lambda one: one.slow_ms)


def _probes(one: Option, key: str, policy: Settings) -> bool:
    """Whether this request is one of the few that find out how an unmeasured model is doing."""
    if one.measured or one.in_flight >= policy.max_probes:
        return False
    return draw(key, "probe", one.model.slug) < policy.probe_share


def _confidence(kind: Kind, chosen: Option, difficulty: Difficulty, late: bool, policy: Settings) -> float:
    """The worth of the kind, less for a late first token, figures not measured, a difficulty on the edge of a floor."""
    doubts = {
        0.5: kind == "named" and late,
        0.9: kind not in ("named", "probe") and not chosen.measured,
        0.8: kind != "named" and any(abs(difficulty.score - start) < _EDGE for start, _ in policy.floors),
        0.7: not chosen.fits,
    }
    return round(_CONFIDENCE[kind] * math.prod(factor for factor, holds in doubts.items() if holds), 3)


def _reason(kind: Kind, chosen: Option, choices: int, difficulty: Difficulty, budget_ms: float | None) -> str:
    named = f"{chosen.model.name} {_SAYS[kind].format(choices=choices)}"
    level = "" if kind == "named" else f" for difficulty {difficulty.score:.2f} ({difficulty.why})"
    cut = "" if chosen.fits else "; the prompt has to be cut to fit its window"
    return f"{named}{level}; {_speed(chosen, budget_ms)}{cut}"


def _speed(chosen: Option, budget_ms: float | None) -> str:
    basis = f"{chosen.samples} samples" if chosen.measured else "mostly the model table's prior"
    limit = "" if budget_ms is None else f", {'over' if chosen.slow_ms > budget_ms else 'within'} {budget_ms:.0f} ms"
    return f"first token in about {chosen.expected_ms:.0f} and seldom {chosen.slow_ms:.0f} ms{limit}, by {basis}"


def _nowhere(models: Sequence[Model], request: Route, snapshot: Snapshot, policy: Settings) -> Failure:
    """Why no worker can take it: all that could are full, or there is none."""
    waits = [
        load.wait_ms(
            Usual(
                answer_ms=snapshot.service_ms.get(model.slug, policy.service_prior_ms),
                token_ms=policy.token_ms,
                p95_ms=math.inf,
            )
        )
        for model in models
        for load in snapshot.loads.get(model.slug, ())
        if usable(model, load, request, policy)
    ]
    who = models[0].name if len(models) == 1 else "any model that could answer"
    if waits:
        soon = int(min(max(min(waits), _SOON_MS), _LATE_MS))
        return Failure(code="overloaded", detail=f"every worker of {who} is full", retry_after_ms=soon)
    return Failure(code="unavailable", detail=f"no worker of {who} is ready", retry_after_ms=policy.retry_after_ms)
