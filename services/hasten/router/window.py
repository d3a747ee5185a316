"""Keeps the latest latencies of one model and says what to expect of it; old ones fade by time, not only by count."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hasten.messages.chat import Finished

CENSORED = frozenset({"cancelled", "deadline"})
"""The caller stopped waiting: how long it had waited is a lower bound of the latency, no more."""
FAULTS = frozenset({"upstream", "incomplete", "unavailable", "internal"})
"""Failures of the model or its worker. Refusals (overloaded, draining, bad_request …) say nothing of its speed."""


class Latency(NamedTuple):
    """What to expect: quantiles in ms, how many samples there were, and whether they are enough to go by."""

    p50_ms: float
    p95_ms: float
    samples: int = 0
    known: bool = False


class Window:
    """The last `size` latencies of a model, none older than `age_s`, each counting half after every `half_life_s`.

    Times are seconds of any one clock; samples are added in the order of their times.
    """

    def __init__(self, size: int = 1000, age_s: float = 600.0, half_life_s: float = 180.0) -> None:
        self._age_s, self._half_life_s = age_s, half_life_s
        self._ms: npt.NDArray[np.float64] = np.zeros(size)
        self._at: npt.NDArray[np.float64] = np.full(size, -np.inf)
        self._added = 0
        self._cached: tuple[tuple[int, int], tuple[float, float, int, float]] | None = None

    def add(self, ms: float, now_s: float) -> None:
        """Adds one latency measured at `now_s`."""
        place = self._added % len(self._ms)
        self._ms[place], self._at[place] = ms, now_s
        self._added += 1

    def latency(self, prior_ms: float, now_s: float, enough: float = 10.0) -> Latency:
        """The expectation at `now_s`: `prior_ms` without samples, mixed with it until they weigh `enough`."""
        p50, p95, samples, weight = self._quantiles(now_s)
        share = min(1.0, weight / enough)
        return Latency(
            p50_ms=share * p50 + (1 - share) * prior_ms,
            p95_ms=share * p95 + (1 - share) * prior_ms,
            samples=samples,
            known=weight >= enough,
        )

    def _quantiles(self, now_s: float) -> tuple[float, float, int, float]:
        """p50, p95, samples and their weight; computed again for a new sample and every second, as they fade."""
        key = (self._added, int(now_s))
        if self._cached is None or self._cached[0] != key:
            self._cached = key, self._compute(now_s)
        return self._cached[1]

    def _compute(self, now_s: float) -> tuple[float, float, int, float]:
        ages = now_s - self._at
        young = ages <= self._age_s
        samples = int(young.sum())
        if samples == 0:
            return 0.0, 0.0, 0, 0.0
        ms, weights = self._ms[young], np.exp2(-np.maximum(ages[young], 0.0) / self._half_life_s)
        order = np.argsort(ms)
        sorted_ms, reached = ms[order], np.cumsum(weights[order])
        weight = float(reached[-1])
        high = min(0.95, max(0.5, 1 - 1.5 / weight))
        p50, p95 = (float(sorted_ms[np.searchsorted(reached, q * weight * (1 - 1e-9))]) for q in (0.5, high))
        return p50, p95, samples, weight


def ttft_sample(event: Finished, p95_ms: float, failure_ms: float) -> float | None:
    """The sample that a finished request leaves in its model's window of first-token times; None for no sample.

    Only requests that reached a model count (cache `miss`). A fault counts as at least `failure_ms`. A caller that
    gave up before the first token had waited `total_ms`: that tells something only when it is above `p95_ms`.
    """
    if event.cache != "miss" or not event.slug:
        return None
    ttft_ms = event.worker_ttft_ms or event.ttft_ms
    if event.outcome in FAULTS:
        return max(failure_ms, ttft_ms)
    if ttft_ms > 0:
        return ttft_ms
    if event.outcome in CENSORED and event.total_ms > p95_ms:
        return event.total_ms
    return None


def loser_sample(event: Finished, p95_ms: float) -> float | None:
    """The sample that the attempt left in a race leaves: it would have taken at least as long as it was waited for.

    That tells something only when it is above `p95_ms`. Without it hedging would hide how slow the model is, and the
    P95 that it goes by would fall with every hedge.
    """
    return event.loser_ms if event.loser and event.cache == "miss" and event.loser_ms > p95_ms else None


def duration_sample(event: Finished) -> float | None:
    """How long a whole generation took, kept apart from its first token: long answers are not slow starts."""
    counts = event.cache == "miss" and event.slug and event.outcome == "done" and event.total_ms > 0
    return event.total_ms if counts else None
