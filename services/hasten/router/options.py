"""Turns the model table into the options of one request: which models could answer, where, how soon, at what cost."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from hasten.messages.failure import Failure
from hasten.messages.needs import FIELD_OF
from hasten.messages.route import Route
from hasten.models import AUTO, Model
from hasten.router.affinity import anchor
from hasten.router.settings import Settings
from hasten.router.window import Latency
from hasten.router.workers import Balance, Load, Usual, Work, best, draw


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A model that could answer, at its best worker.

    `expected_ms` is the likely time to the first token and `slow_ms` what it seldom exceeds: the P95 (`p95_ms`), the
    estimated wait, or how late the worker's oldest request is already, its prompt considered. `in_flight` counts the
    requests at all of the model's workers, `probes` those that are finding out how fast it is. `measured` says that the
    figures are not mostly the table's prior, `fits` that prompt and answer fit the window as they are. `cached` tokens
    of the prompt are in the worker's prefix cache.
    """

    model: Model
    load: Load
    expected_ms: float
    slow_ms: float
    p95_ms: float = 0.0
    in_flight: int = 0
    probes: int = 0
    samples: int = 0
    measured: bool = False
    fits: bool = True
    cost: float = 0.0
    cached: int = 0


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision goes by: the table, the rows that were removed from it, and by slug the workers, latencies,
    time a request holds a slot, probes on their way, and how many tokens of the prompt each worker has in its prefix
    cache."""

    models: Sequence[Model]
    retired: Sequence[Model] = ()
    loads: Mapping[str, Sequence[Load]]
    latencies: Mapping[str, Latency]
    service_ms: Mapping[str, float] = {}
    probes: Mapping[str, int] = {}
    cached: Mapping[str, Mapping[str, int]] = {}


def named(name: str, models: Sequence[Model]) -> list[Model] | Failure:
    """The models that a request's `model` leaves to choose from: all for `auto`, else the one of that name or alias."""
    if name == AUTO:
        return list(models)
    found = [model for model in models if name in (model.name, model.slug, *model.aliases)]
    known = ", ".join([AUTO, *(name for model in models for name in (model.name, *model.aliases))][:20])
    return found or Failure(
        code="model_not_found", detail=f"no model has this name or alias; there are {known}", param="model"
    )


def better(models: Sequence[Model], name: str, table: Sequence[Model]) -> list[Model] | Failure:
    """Those of the models that have more quality than the one of this name in the table."""
    quality = max((model.quality for model in table if model.name == name), default=0.0)
    found = [model for model in models if model.quality > quality]
    return found or Failure(code="model_not_found", detail=f"no model is better than {name}", param="above")


def able(models: Sequence[Model], needs: Sequence[str], loads: Mapping[str, Sequence[Load]]) -> list[Model] | Failure:
    """Those of the models that have every capability in `needs`, or whose workers may announce them yet."""
    lacking = {model.name: _lacking(model, needs, loads.get(model.slug, ())) for model in models}
    if found := [model for model in models if not lacking[model.name]]:
        return found
    name, missing = min(lacking.items(), key=lambda item: len(item[1]))
    who = f"the model {name} lacks" if len(models) == 1 else f"no model has all it needs; {name} lacks"
    return Failure(code="unsupported", detail=f"{who} {', '.join(missing)}", param=FIELD_OF.get(missing[0], "model"))


def _lacking(model: Model, needs: Sequence[str], loads: Sequence[Load]) -> list[str]:
    """What the model cannot do: what its row does not promise, or no ready worker of those that say what they can; a
    row without capabilities leaves that to its workers' own word."""
    said = [load.capabilities for load in loads if load.ready and load.capabilities]
    if not model.capabilities:
        said = said or [load.capabilities for load in loads]
        return min((sorted(set(needs) - set(has)) for has in said), key=len, default=[])
    able = [set(has) & set(model.capabilities) for has in said] or [set(model.capabilities)]
    return min((sorted(set(needs) - has) for has in able), key=len)


def wide(models: Sequence[Model], request: Route, policy: Settings) -> list[Model] | Failure:
    """Those of the models whose context window can hold the request, once what can be cut has been."""
    least = least_tokens(request, policy)
    if found := [model for model in models if model.context_window >= least]:
        return found
    widest = max(models, key=lambda model: model.context_window)
    detail = f"the request needs at least {least:.0f} tokens, {widest.name} has {widest.context_window}"
    return Failure(code="context_overflow", detail=detail, param="messages")


def least_tokens(request: Route, policy: Settings) -> float:
    """The fewest tokens that prompt and answer can have: a single turn cannot be cut, a history can.

    Ordinary text has no more than some eight characters per token; `prompt_tokens` is an estimate.
    """
    uncut = request.prompt_tokens / policy.estimate_slack if request.turns <= 1 else 0.0
    return max(uncut, len(request.text) / 8) + policy.min_answer_tokens


def window_of(model: Model, load: Load) -> int:
    """The hard limit on prompt plus answer: the smaller of the table's and the worker's."""
    return min(model.context_window, load.context_window or model.context_window)


def usable(model: Model, load: Load, request: Route, policy: Settings) -> bool:
    """Whether the worker could take the request, but for a full queue and a cool-down."""
    if not load.ready or load.name in request.exclude:
        return False
    if request.needs and not set(request.needs) <= set(load.capabilities or model.capabilities):
        return False
    return window_of(model, load) >= least_tokens(request, policy)


def latency_of(model: Model, snapshot: Snapshot) -> Latency:
    """What to expect of the model's first token; the table's prior for one of which nothing is known."""
    return snapshot.latencies.get(model.slug) or Latency(model.ttft_prior_ms, model.ttft_prior_ms)


def usual_of(model: Model, snapshot: Snapshot, policy: Settings) -> Usual:
    """What is taken of a worker of the model that has not measured itself."""
    answer_ms = snapshot.service_ms.get(model.slug, policy.service_prior_ms)
    return Usual(answer_ms=answer_ms, token_ms=policy.token_ms, p95_ms=latency_of(model, snapshot).p95_ms)


def _has_place(load: Load, request: Route) -> bool:
    return load.cooling_ms <= 0 and (load.in_flight < load.slots if request.spare else not load.full)


def option(model: Model, request: Route, key: str, snapshot: Snapshot, policy: Settings) -> Option | None:
    """The model at the best of the workers that have a place for the request; None when none has."""
    everywhere = snapshot.loads.get(model.slug, ())
    free = [load for load in everywhere if _has_place(load, request)]
    loads = [load for load in free if usable(model, load, request, policy)]
    latency, usual = latency_of(model, snapshot), usual_of(model, snapshot, policy)
    prefix, cached = (request.prefix, snapshot.cached.get(model.slug, {})) if policy.affinity else ({}, {})
    work = Work(key=anchor(prefix) or key, tokens=request.prompt_tokens, cached=cached)
    balance = Balance(pressure=policy.pressure, near=policy.near_worker, near_ms=policy.near_ms)
    load = best(loads, work, usual, balance)
    if load is None:
        return None
    expected_ms = latency.p50_ms + load.wait_ms(usual)
    answer = max(policy.min_answer_tokens, request.max_tokens or 0)
    return Option(
        model=model,
        load=load,
        expected_ms=expected_ms,
        slow_ms=max(latency.p95_ms, expected_ms, load.late_ms),
        p95_ms=latency.p95_ms,
        in_flight=sum(load.in_flight for load in everywhere),
        probes=snapshot.probes.get(model.slug, 0),
        samples=latency.samples,
        measured=latency.known,
        fits=request.prompt_tokens + answer <= window_of(model, load),
        cost=_cost(model, request, policy),
        cached=cached.get(load.name, 0),
    )


def _cost(model: Model, request: Route, policy: Settings) -> float:
    answer = min(request.max_tokens or policy.answer_tokens, policy.answer_tokens)
    prompt = min(request.prompt_tokens, model.token_budget)
    return (prompt * model.cost_per_1k_prompt + answer * model.cost_per_1k_completion) / 1000


def ranked(options: Sequence[Option], key: str, policy: Settings) -> list[Option]:
    """Best first: the cheapest, among near-equal costs the fastest, and near-equals in both spread by the `key`.

    The order depends on no budget and no floor, so that taking options away never changes the order of the rest.
    """
    order: list[Option] = []
    for equal_cost in _near(options, lambda one: one.cost, policy.near, 0.0):
        for equal in _near(equal_cost, lambda one: one.slow_ms, policy.near, policy.near_ms):
            order += sorted(equal, key=lambda one: draw(key, one.model.slug))
    return order


def preferring(order: Sequence[Option], capabilities: Sequence[str]) -> list[Option]:
    """The options that have these capabilities before those that lack any, otherwise in the order given."""
    wanted = set(capabilities)
    return sorted(order, key=lambda one: not wanted <= {*one.model.capabilities, *one.load.capabilities})


def _near(
    options: Sequence[Option], value: Callable[[Option], float], near: float, slack: float
) -> Iterator[list[Option]]:
    """Groups of options, lowest value first, whose values exceed their group's lowest by little."""
    group: list[Option] = []
    for one in sorted(options, key=value):
        if group and value(one) > value(group[0]) * (1 + near) + slack:
            yield group
            group = []
        group.append(one)
    if group:
        yield group
