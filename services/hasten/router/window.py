"""Keeps how the latest attempts at one model went, and says what to expect of it; pure. Old ones fade by time, not only
by count. What it says depends on which attempts it has heard of and not on their order, so that all replicas agree."""

from bisect import bisect_left
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hasten.messages.attempt import Attempted

CENSORED = frozenset({"cancelled", "deadline"})
"""The caller stopped waiting: how long it had waited is a lower bound of the latency, no more."""
FAULTS = frozenset({"upstream", "incomplete", "unavailable", "internal"})
"""Failures of the model or its worker. Refusals (overloaded, draining, bad_request …) say nothing of its speed."""
LOST = frozenset({"incomplete", "unavailable"})
"""Faults that all requests of a worker have at once when it dies."""
TOGETHER_S = 1.0
"""Losses at one worker within so long of each other are one: a worker that died is not many slow answers."""


class Latency(NamedTuple):
    """What to expect of the first token: quantiles in ms, how many samples there were, and whether they are enough to
    go by; the share of attempts that were faults, and the unix time of the newest attempt (0 for none)."""

    p50_ms: float
    p95_ms: float
    samples: int = 0
    known: bool = False
    error_rate: float = 0.0
    newest_s: float = 0.0


class _Kind(IntEnum):
    """What an attempt tells: a first token, a fault, a lost worker, a lower bound of the first token, nothing."""

    TIMED = 0
    FAULT = 1
    LOSS = 2
    BOUND = 3
    NOTHING = 4


class _Key(NamedTuple):
    """The place of an attempt in the order of time; `source` and `seq` make it unique."""

    at_s: float
    source: str
    seq: int
    worker: str


class _Figures(NamedTuple):
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    samples: int = 0
    weight: float = 0.0
    error_rate: float = 0.0
    service_ms: float = 0.0
    services: float = 0.0


_Floats = npt.NDArray[np.float64]
_AT, _KIND, _TTFT, _TOTAL = range(4)


class Window:
    """The last `size` attempts at a model, none older than `age_s`, each counting half after every `half_life_s`.

    A fault counts as a first token after `failure_ms` at least. Times are unix seconds, those of the events. Figures
    are of the last whole second, which is the same on every replica, and computed once in it (0.1 ms for 1,000).
    """

    def __init__(
        self, size: int = 1000, age_s: float = 600.0, half_life_s: float = 180.0, failure_ms: float = 10_000.0
    ) -> None:
        self._size, self._age_s, self._half_life_s, self._failure_ms = size, age_s, half_life_s, failure_ms
        self._keys: list[_Key] = []
        self._rows: _Floats = np.zeros((size + 1, 4))
        self._seen: set[tuple[str, int]] = set()
        self._second = -1
        self._figures = _Figures()

    def add(self, event: Attempted) -> bool:
        """Takes in an attempt; False for one that it has, or that is older than all of a full window."""
        if (event.source, event.seq) in self._seen:
            return False
        key = _Key(event.at_ms / 1000, event.source, event.seq, event.worker)
        count, place = len(self._keys), bisect_left(self._keys, key)
        if count == self._size and place == 0:
            return False
        self._keys.insert(place, key)
        self._seen.add((event.source, event.seq))
        self._rows[place + 1 : count + 1] = self._rows[place:count]
        self._rows[place] = self._row(event)
        if count == self._size:
            self._drop_oldest()
        if key.at_s < self._second:
            self._second = -1
        return True

    def _row(self, event: Attempted) -> tuple[float, float, float, float]:
        kind, ttft_ms = kind_of(event), event.ttft_ms
        if kind in (_Kind.FAULT, _Kind.LOSS):
            ttft_ms = max(self._failure_ms, ttft_ms)
        elif kind is _Kind.BOUND:
            ttft_ms = event.total_ms
        return event.at_ms / 1000, kind, ttft_ms, event.total_ms if event.outcome == "done" else -1.0

    def _drop_oldest(self) -> None:
        oldest = self._keys.pop(0)
        self._seen.discard((oldest.source, oldest.seq))
        self._rows[:-1] = self._rows[1:]

    def latency(self, prior_ms: float, now_s: float, enough: float = 10.0) -> Latency:
        """The expectation at `now_s`: `prior_ms` without samples, mixed with it until they weigh `enough`.

        They are mixed as logarithms, so that one answer of a minute does not make a model slow that nobody knows yet.
        """
        figures = self._at(now_s)
        share = min(1.0, figures.weight / enough)
        return Latency(
            p50_ms=_mixed(figures.p50_ms, prior_ms, share),
            p95_ms=_mixed(figures.p95_ms, prior_ms, share),
            samples=figures.samples,
            known=figures.weight >= enough,
            error_rate=round(figures.error_rate, 4),
            newest_s=self._keys[-1].at_s if self._keys else 0.0,
        )

    def service_ms(self, prior_ms: float, now_s: float, enough: float = 10.0) -> float:
        """How long a whole generation holds a slot, a statistic apart from the first token: long is not late."""
        figures = self._at(now_s)
        return _mixed(figures.service_ms, prior_ms, min(1.0, figures.services / enough))

    def _at(self, now_s: float) -> _Figures:
        if (second := int(now_s)) != self._second:
            self._second, self._figures = second, self._compute(float(second))
        return self._figures

    def _compute(self, now_s: float) -> _Figures:
        rows = self._rows[: len(self._keys)]
        rows = rows[(rows[:, _AT] < now_s) & (now_s - rows[:, _AT] <= self._age_s) & self._apart()]
        kinds, weights = rows[:, _KIND], np.exp2((rows[:, _AT] - now_s) / self._half_life_s)
        exact = kinds <= _Kind.LOSS
        p50, p95, weight = _quantiles(rows[exact, _TTFT], weights[exact])
        late = (kinds == _Kind.BOUND) & (rows[:, _TTFT] > p95)
        if late.any():
            exact |= late
            p50, p95, weight = _quantiles(rows[exact, _TTFT], weights[exact])
        done = rows[:, _TOTAL] >= 0
        faults = (kinds == _Kind.FAULT) | (kinds == _Kind.LOSS)
        tries = float(weights[done | faults].sum())
        service_ms, _, services = _quantiles(rows[done, _TOTAL], weights[done])
        rate = float(weights[faults].sum()) / tries if tries else 0.0
        return _Figures(p50, p95, int(exact.sum()), weight, rate, service_ms, services)

    def _apart(self) -> npt.NDArray[np.bool_]:
        """Which attempts count: all but the losses at a worker that come together with another one."""
        counts = np.ones(len(self._keys), dtype=np.bool_)
        last: dict[str, float] = {}
        for place in np.flatnonzero(self._rows[: len(self._keys), _KIND] == _Kind.LOSS):
            key = self._keys[place]
            if key.at_s - last.get(key.worker, -np.inf) < TOGETHER_S:
                counts[place] = False
            else:
                last[key.worker] = key.at_s
        return counts


def kind_of(event: Attempted) -> _Kind:
    """What an attempt tells of the first token of its model."""
    if event.outcome in LOST:
        return _Kind.LOSS
    if event.outcome in FAULTS:
        return _Kind.FAULT
    if event.ttft_ms > 0:
        return _Kind.TIMED
    return _Kind.BOUND if event.outcome in CENSORED else _Kind.NOTHING


def _quantiles(values: _Floats, weights: _Floats) -> tuple[float, float, float]:
    """The weighted p50 and p95, and the weight; among few values the highest one is not the p95."""
    if not len(values):
        return 0.0, 0.0, 0.0
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    weight = float(reached[-1])
    high = min(0.95, max(0.5, 1 - 1.5 / weight))
    places = [min(int(np.searchsorted(reached, q * weight * (1 - 1e-9))), len(values) - 1) for q in (0.5, high)]
    return float(values[order[places[0]]]), float(values[order[places[1]]]), weight


def _mixed(value: float, prior: float, share: float) -> float:
    """The weighted geometric mean."""
    if share >= 1.0:
        return value
    return float(max(value, 1e-3) ** share * max(prior, 1e-3) ** (1 - share)) if share else prior
