"""Decides which model and which worker answer a request; pure, so that replicas with the same facts decide alike."""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from hasten.messages.failure import Failure
from hasten.messages.route import Route
from hasten.models import AUTO, Model
from hasten.router.difficulty import Difficulty, estimate
from hasten.router.options import (
    Option,
    Snapshot,
    able,
    better,
    named,
    option,
    preferring,
    ranked,
    usable,
    usual_of,
    wide,
)
from hasten.router.settings import Settings
from hasten.router.workers import Load, draw

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
"""The bounds of what a full worker's queue is estimated to take; the end of a cool-down is known."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The choice: an option, what kind of choice it was, one sentence of reason, and how sure we are (0 to 1).

    `over_budget` says that the first token is likely to be late, `cascade` that a model was preferred as small because
    nobody knows how hard the request is, while a better one is there to escalate to.
    """

    option: Option
    kind: Kind
    reason: str
    confidence: float
    difficulty: Difficulty
    over_budget: bool = False
    cascade: bool = False


def decide(request: Route, key: str, snapshot: Snapshot, policy: Settings) -> Decision | Failure:
    """The model and worker for a request, or why there is none.

    Wanted: every capability, a window that holds the request, the quality that its difficulty asks for, a first token
    within the latency budget, and then the least cost. What cannot be had is given up in this order: quality (the best
    within the budget), then the budget (the fastest). Where the difficulty is not known, no quality is wanted. A model
    asked for by name is taken as it is. `key` names the request: it spreads equals, the same way on every replica.
    Failures: model_not_found, unsupported, context_overflow, and with `retry_after_ms` overloaded and unavailable.
    """
    models = _capable(request, snapshot, policy)
    if isinstance(models, Failure):
        return models
    found = [made for model in models if (made := option(model, request, key, snapshot, policy)) is not None]
    if not found:
        return _nowhere(models, request, snapshot, policy)
    difficulty = estimate(
        request.text, request.vector, request.turns, needs=request.needs, prompt_tokens=request.prompt_tokens
    )
    order = preferring(ranked([one for one in found if one.fits] or found, key, policy), difficulty.prefers)
    budget_ms = policy.latency_budget_ms if request.latency_budget_ms is None else request.latency_budget_ms
    floor = floor_of(difficulty.score, policy) if difficulty.known else 0.0
    kind, chosen = _choose(order, request, key, floor, budget_ms, policy)
    late = budget_ms is not None and chosen.slow_ms > budget_ms
    improves = any(one.model.quality > chosen.model.quality for one in order)
    decided = Decision(
        option=chosen,
        kind=kind,
        reason="",
        confidence=_confidence(kind, chosen, difficulty, late, policy),
        difficulty=difficulty,
        over_budget=late,
        cascade=kind != "named" and not difficulty.known and improves,
    )
    return msgspec.structs.replace(decided, reason=_reason(decided, len(order), budget_ms))


def cooldown_ms(request: Route, snapshot: Snapshot, policy: Settings) -> float | None:
    """How long until the first of the workers that could take the request has cooled down; None when none cools."""
    models = _capable(request, snapshot, policy)
    if isinstance(models, Failure):
        return None
    cooling = (load.cooling_ms for _, load in _usable(models, request, snapshot, policy) if load.cooling_ms > 0)
    return min(cooling, default=None)


def _usable(
    models: Sequence[Model], request: Route, snapshot: Snapshot, policy: Settings
) -> Iterator[tuple[Model, Load]]:
    for model in models:
        for load in snapshot.loads.get(model.slug, ()):
            if usable(model, load, request, policy):
                yield model, load


def _capable(request: Route, snapshot: Snapshot, policy: Settings) -> Sequence[Model] | Failure:
    """The models that could answer the request if they had a worker for it. One that has lost a worker may go on with
    a model that was removed from the table meanwhile."""
    models: Sequence[Model] | Failure = named(request.model, snapshot.models)
    if isinstance(models, Failure) and request.exclude:
        gone = named(request.model, snapshot.retired)
        models = models if isinstance(gone, Failure) else gone
    if not isinstance(models, Failure) and request.above:
        models = better(models, request.above, snapshot.models)
    if not isinstance(models, Failure):
        models = able(models, request.needs, snapshot.loads)
    if not isinstance(models, Failure):
        models = wide(models, request, policy)
    return models


def floor_of(difficulty: float, policy: Settings) -> float:
    """The quality that a model needs for this difficulty."""
    return max((quality for start, quality in policy.floors if difficulty >= start), default=0.0)


def _choose(
    order: Sequence[Option], request: Route, key: str, floor: float, budget_ms: float | None, policy: Settings
) -> tuple[Kind, Option]:
    if request.model != AUTO:
        return "named", order[0]
    if any(one.measured for one in order):
        for one in order:
            if one.model.quality >= floor and _probes(one, key, policy):
                return "probe", one
    timely = [one for one in order if budget_ms is None or one.slow_ms <= budget_ms]
    good = [one for one in timely if one.model.quality >= floor]
    if good:
        return "cheapest", next((one for one in good if one.measured), good[0])
    if timely:
        return "below_floor", max(timely, key=lambda one: one.model.quality)
    return "over_budget", min(order, key=lambda one: one.slow_ms)


def _probes(one: Option, key: str, policy: Settings) -> bool:
    """Whether this request is one of the few that find out how an unmeasured model is doing, whatever its prior says,
    unless the last of them has been waiting for too long."""
    if one.measured or max(one.in_flight, one.probes) >= policy.max_probes:
        return False
    if one.load.oldest_ms > max(one.p95_ms, policy.probe_patience_ms):
        return False
    return draw(key, "probe", one.model.slug) < policy.probe_share


def _confidence(kind: Kind, chosen: Option, difficulty: Difficulty, late: bool, policy: Settings) -> float:
    """The worth of the kind, less for a late first token, figures not measured, a difficulty on the edge of a floor or
    unknown, a prompt that has to be cut."""
    edge = any(abs(difficulty.score - start) < _EDGE for start, _ in policy.floors)
    doubts = (
        (0.5, kind == "named" and late),
        (0.9, kind not in ("named", "probe") and not chosen.measured),
        (0.8, kind != "named" and difficulty.known and edge),
        (0.6, kind != "named" and not difficulty.known),
        (0.7, not chosen.fits),
    )
    return round(_CONFIDENCE[kind] * math.prod(factor for factor, holds in doubts if holds), 3)


def _reason(decided: Decision, choices: int, budget_ms: float | None) -> str:
    kind, chosen, difficulty = decided.kind, decided.option, decided.difficulty
    named = f"{chosen.model.name} {_SAYS[kind].format(choices=choices)}"
    level = "" if kind == "named" else f" for difficulty {difficulty.score:.2f} ({difficulty.why})"
    if kind != "named" and not difficulty.known:
        level = f", the difficulty being unknown ({difficulty.why})"
    cut = "" if chosen.fits else "; the prompt has to be cut to fit its window"
    escalates = "; a better model may have to answer after all" if decided.cascade else ""
    return f"{named}{level}; {_speed(chosen, budget_ms)}{cut}{escalates}"


def _speed(chosen: Option, budget_ms: float | None) -> str:
    basis = f"{chosen.samples} samples" if chosen.measured else "mostly the model table's prior"
    limit = (
        ""
        if budget_ms is None
        else f" ({'over' if chosen.slow_ms > budget_ms else 'within'} the {budget_ms:.0f} ms allowed)"
    )
    return f"first token in about {chosen.expected_ms:.0f} ms, seldom over {chosen.slow_ms:.0f} ms{limit}, by {basis}"


def _nowhere(models: Sequence[Model], request: Route, snapshot: Snapshot, policy: Settings) -> Failure:
    """Why no worker can take it: all that could are full or cool down, or there is none."""
    who = models[0].name if len(models) == 1 else "any model that could answer"
    found = list(_usable(models, request, snapshot, policy))
    if not found:
        return Failure(code="unavailable", detail=f"no worker of {who} is ready", retry_after_ms=policy.retry_after_ms)
    cooling = any(load.cooling_ms > 0 for _, load in found)
    soon = min(_wait_ms(model, load, snapshot, policy) for model, load in found)
    detail = f"every worker of {who} {'cools down, was asked for a pause or is full' if cooling else 'is full'}"
    return Failure(code="overloaded", detail=detail, retry_after_ms=math.ceil(soon))


def _wait_ms(model: Model, load: Load, snapshot: Snapshot, policy: Settings) -> float:
    """How long until a worker that takes nothing now may take a request."""
    queue_ms = min(max(load.wait_ms(usual_of(model, snapshot, policy)), _SOON_MS), _LATE_MS)
    return max(load.cooling_ms, queue_ms if load.full else 0.0, _SOON_MS)
