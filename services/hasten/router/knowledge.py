"""Collects what a replica hears into the facts that decisions go by; the time is always given."""

from collections.abc import Sequence

from hasten.messages.chat import Finished
from hasten.messages.generate import Status
from hasten.messages.route import ModelInfo
from hasten.models import Model
from hasten.router.options import Snapshot
from hasten.router.settings import Settings
from hasten.router.window import CENSORED, Latency, Window, duration_sample, loser_sample, ttft_sample
from hasten.router.workers import Workers

_SOURCES = 1000
"""How many orchestrators' event numbers are remembered."""


class Knowledge:
    """The workers, and per model the windows of first-token times and of durations. Times are monotonic seconds."""

    def __init__(self, models: Sequence[Model], settings: Settings) -> None:
        self._models = {model.slug: model for model in models}
        self._settings = settings
        self._workers = Workers(settings.gone_s, settings.arrival_s)
        self._ttft = {slug: self._window() for slug in self._models}
        self._durations = {slug: self._window() for slug in self._models}
        self._sources: dict[str, int] = {}

    def _window(self) -> Window:
        return Window(self._settings.window_samples, self._settings.window_age_s, self._settings.half_life_s)

    def status(self, slug: str, worker: str, status: Status, now_s: float) -> int:
        """Takes in a worker's status; returns how many before it were missed."""
        return self._workers.hear(slug, worker, status, now_s)

    def finished(self, event: Finished, now_s: float) -> int:
        """Takes in the end of a request; returns how many events of the same source before it were missed."""
        self._workers.finished(event.slug, event.worker)
        if event.loser:
            self._workers.finished(event.slug, event.loser)
        if event.slug in self._models:
            bounded = event.outcome in CENSORED or event.loser
            usual_ms = self._latency(event.slug, now_s).p95_ms if bounded else 0.0
            if (ms := ttft_sample(event, usual_ms, self._settings.failure_ms)) is not None:
                self._ttft[event.slug].add(ms, now_s)
            if (ms := loser_sample(event, usual_ms)) is not None:
                self._ttft[event.slug].add(ms, now_s)
            if (ms := duration_sample(event)) is not None:
                self._durations[event.slug].add(ms, now_s)
        return self._missed(event.source, event.seq)

    def _missed(self, source: str, seq: int) -> int:
        last = self._sources.pop(source, seq - 1)
        self._sources[source] = max(seq, last)
        while len(self._sources) > _SOURCES:
            del self._sources[next(iter(self._sources))]
        return max(0, seq - last - 1)

    def sent(self, slug: str, worker: str, tokens: int, now_s: float) -> None:
        """Notes that a request was routed to a worker, until the worker's own word includes it."""
        self._workers.sent(slug, worker, tokens, now_s)

    def _latency(self, slug: str, now_s: float) -> Latency:
        return self._ttft[slug].latency(self._models[slug].ttft_prior_ms, now_s, self._settings.enough_samples)

    def snapshot(self, now_s: float) -> Snapshot:
        """The facts at `now_s`."""
        policy = self._settings
        return Snapshot(
            models=list(self._models.values()),
            loads={slug: self._workers.loads(slug, now_s) for slug in self._models},
            latencies={slug: self._latency(slug, now_s) for slug in self._models},
            service_ms={
                slug: window.latency(policy.service_prior_ms, now_s, policy.enough_samples).p50_ms
                for slug, window in self._durations.items()
            },
        )

    def models(self, now_s: float) -> list[ModelInfo]:
        """The model table with how many workers take requests and the first-token times measured."""
        facts = self.snapshot(now_s)
        return [
            _info(model, sum(load.ready for load in facts.loads[slug]), facts.latencies[slug])
            for slug, model in self._models.items()
        ]


def _info(model: Model, workers: int, latency: Latency) -> ModelInfo:
    return ModelInfo(
        name=model.name,
        slug=model.slug,
        aliases=model.aliases,
        capabilities=model.capabilities,
        context_window=model.context_window,
        quality=model.quality,
        cost_per_1k_prompt=model.cost_per_1k_prompt,
        cost_per_1k_completion=model.cost_per_1k_completion,
        workers=workers,
        p50_ttft_ms=round(latency.p50_ms, 1) if latency.samples else None,
        p95_ttft_ms=round(latency.p95_ms, 1) if latency.samples else None,
        samples=latency.samples,
    )
