"""Collects what a replica hears into the facts that decisions go by; pure, the time is always given."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from hasten.messages.attempt import Attempted, Sent
from hasten.messages.generate import Status
from hasten.messages.route import ModelInfo, WorkerInfo
from hasten.models import Model, ModelTable
from hasten.router.affinity import NO_PREFIX, Prefix
from hasten.router.breaker import BreakerPolicy
from hasten.router.options import Snapshot
from hasten.router.probes import Probes
from hasten.router.settings import Settings
from hasten.router.window import Latency, Window
from hasten.router.workers import Load, Workers

_KEPT = 1000
"""How many models' windows and how many sources' event numbers are remembered; rows of the table may come and go."""


_LARGEST = 2**53
_Event = TypeVar("_Event", bound=msgspec.Struct)


def plausible(event: _Event) -> _Event:
    """A message with the numbers that nobody measures cut to what can be computed with: negative ones to 0, others to
    2**53, above which JSON knows no integers. One absurd word must not make every decision fail."""
    given = {name: getattr(event, name) for name in event.__struct_fields__}
    odd = {name: n for name, n in given.items() if type(n) in (int, float) and not 0 <= n <= _LARGEST}
    return (
        msgspec.structs.replace(event, **{name: type(n)(min(max(n, 0), _LARGEST)) for name, n in odd.items()})
        if odd
        else event
    )


class Knowledge:
    """The workers, what is on its way to them, and a window of attempts for each model.

    `models` is read anew at each use, and may change. Times `now_s` are monotonic seconds, for what this replica has
    heard itself; `unix_s` are those of the events, which all replicas share.
    """

    def __init__(self, models: ModelTable, settings: Settings) -> None:
        self._models, self._settings = models, settings
        self._workers = Workers(settings.gone_s, settings.arrival_s, _breaker(settings))
        self._windows: dict[str, Window] = {}
        self._probes = Probes(settings.probe_s)
        self._sources: dict[str, int] = {}

    def _window(self, slug: str) -> Window:
        if slug not in self._windows:
            policy = self._settings
            self._windows[slug] = Window(
                policy.window_samples, policy.window_age_s, policy.half_life_s, policy.failure_ms
            )
            if len(self._windows) > _KEPT:
                del self._windows[next(iter(self._windows))]
        return self._windows[slug]

    def status(self, slug: str, worker: str, status: Status, now_s: float) -> int:
        """Takes in a worker's status; returns how many before it were missed."""
        return self._workers.hear(slug, worker, plausible(status), now_s, ours=self._models.row(slug) is not None)

    def attempted(self, slug: str, event: Attempted, now_s: float, unix_s: float) -> int | None:
        """Takes in how an attempt went, which may have been heard before; returns how many events of the same source
        are missing before it, None when the source is new and has said something before."""
        event = plausible(event)
        if self._window(slug).add(event):
            self._workers.finished(slug, event.worker)
            ago_s = max(0.0, unix_s - event.at_ms / 1000)
            self._workers.ended(slug, event.worker, event.outcome, now_s - ago_s)
            self._probes.ended(slug, event.flight)
        return self._missing(event.source, event.seq)

    def sent(self, slug: str, worker: str, event: Sent, now_s: float) -> int | None:
        """Takes in that this or another replica has sent a request to a worker; returns as `attempted` does."""
        event = plausible(event)
        self._workers.sent(slug, worker, event.tokens, now_s, event.prefix)
        if event.probe and self._models.row(slug) is not None:
            self._probes.began(slug, event.flight, now_s)
        return self._missing(event.source, event.seq)

    def _missing(self, source: str, seq: int) -> int | None:
        last = self._sources.pop(source, None)
        self._sources[source] = max(seq, last or 0)
        while len(self._sources) > _KEPT:
            del self._sources[next(iter(self._sources))]
        if last is None:
            return 0 if seq == 1 else None
        return max(0, seq - last - 1)

    def _latency(self, model: Model, unix_s: float) -> Latency:
        return self._window(model.slug).latency(model.ttft_prior_ms, unix_s, self._settings.enough_samples)

    def snapshot(self, now_s: float, unix_s: float, prefix: Prefix = NO_PREFIX) -> Snapshot:
        """The facts at this time for a prompt that begins with `prefix`."""
        policy, rows, retired = self._settings, list(self._models), list(self._models.retired)
        models = [*rows, *retired]
        return Snapshot(
            models=rows,
            retired=retired,
            loads={model.slug: self._workers.loads(model.slug, now_s) for model in models},
            latencies={model.slug: self._latency(model, unix_s) for model in models},
            service_ms={
                model.slug: self._window(model.slug).service_ms(policy.service_prior_ms, unix_s, policy.enough_samples)
                for model in models
            },
            probes={model.slug: self._probes.count(model.slug, now_s) for model in models},
            cached={model.slug: self._workers.cached(model.slug, prefix) for model in models},
        )

    def models(self, now_s: float, unix_s: float) -> list[ModelInfo]:
        """The model table with the workers of each model and how the attempts at it went."""
        facts = self.snapshot(now_s, unix_s)
        return [_info(model, facts.loads[model.slug], facts.latencies[model.slug], unix_s) for model in facts.models]


def _breaker(settings: Settings) -> BreakerPolicy:
    return BreakerPolicy(
        failures=settings.breaker_failures,
        rate=settings.breaker_rate,
        open_s=settings.breaker_open_s,
        most_s=settings.breaker_most_s,
        probe_s=settings.probe_s,
    )


def _info(model: Model, loads: Sequence[Load], latency: Latency, unix_s: float) -> ModelInfo:
    measured = latency.samples > 0
    return ModelInfo(
        name=model.name,
        slug=model.slug,
        aliases=model.aliases,
        capabilities=model.capabilities,
        context_window=model.context_window,
        quality=model.quality,
        cost_per_1k_prompt=model.cost_per_1k_prompt,
        cost_per_1k_completion=model.cost_per_1k_completion,
        workers=sum(load.ready for load in loads),
        p50_ttft_ms=round(latency.p50_ms, 1) if measured else None,
        p95_ttft_ms=round(latency.p95_ms, 1) if measured else None,
        samples=latency.samples,
        error_rate=latency.error_rate if latency.newest_s else None,
        age_s=round(max(0.0, unix_s - latency.newest_s), 1) if latency.newest_s else None,
        breaker=breaker_of(loads),
        each=[_worker(load) for load in loads],
    )


def breaker_of(loads: Sequence[Load]) -> str:
    """The state of the breakers of the workers that are ready: that of all of them, or `partly open`."""
    states = {load.breaker for load in loads if load.ready} or {"closed"}
    return states.pop() if len(states) == 1 else "partly open"


def _worker(load: Load) -> WorkerInfo:
    return WorkerInfo(
        name=load.name,
        ready=load.ready,
        slots=load.slots,
        in_flight=load.in_flight,
        waiting=max(0, load.in_flight - load.slots),
        oldest_ms=round(load.oldest_ms, 1),
        cooling_ms=round(load.cooling_ms, 1),
        breaker=load.breaker,
        sent=load.sent,
        token_ms=round(load.token_ms, 4),
        answer_ms=round(load.answer_ms, 1),
    )
