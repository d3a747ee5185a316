"""Counts the requests that have ended, in slots of a few seconds; pure, and of bounded size whatever the load.

First-token times are counted in classes 2% wide: a percentile is within 1%, and takes no list of all requests.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from hasten.messages.chat import Finished

SOURCES = ("exact", "semantic", "shared", "miss", "failed")
"""How a request can end: from where its answer came, or without one."""
SLOT_S = 5.0
RECENT_S = 15.0
"""Rates per second are those of the last seconds."""
MOST_NAMES = 32
"""Models and reasons that are told apart in a slot; the rest count as `other`."""
_WIDTH = math.log(1.02)
T = TypeVar("T")


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """First-token times of `samples` requests, each within 1% of the nearest-rank percentile; None without samples."""

    samples: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of the window. `ended` counts them by `SOURCES`; `hit_rate` is exact and semantic among those that
    were answered, None without any. `ttft` has `all` and each source. Tokens per second are those that were sent to
    readers; `saved_tokens` did not have to be generated for them. `missed` and `failed` count by reason and by code."""

    requests: int = 0
    per_s: float = 0.0
    tokens_per_s: float = 0.0
    hit_rate: float | None = None
    ended: dict[str, int] = {}
    ttft: dict[str, Percentiles] = {}
    saved_tokens: int = 0
    missed: dict[str, int] = {}
    failed: dict[str, int] = {}


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One slot: its start, as seconds before now, and how its requests ended."""

    age_s: float
    ended: dict[str, int]


class _Slot:
    """What ended within one stretch of time."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.ended = Counter[str]()
        self.times: dict[str, Counter[int]] = {}
        self.models: dict[str, Counter[int]] = {}
        self.missed = Counter[str]()
        self.failed = Counter[str]()
        self.tokens = self.saved = 0

    def add(self, event: Finished) -> None:
        if event.outcome != "done":
            self.ended["failed"] += 1
            self.failed[_bounded(event.outcome, self.failed)] += 1
            return
        generated = event.cache == "miss"
        self.ended[event.cache] += 1
        self.tokens += event.usage.completion_tokens
        self.saved += 0 if generated else event.usage.completion_tokens
        if generated and (reason := f"{event.reason} {event.guard}".strip()):
            self.missed[_bounded(reason, self.missed)] += 1
        if event.ttft_ms > 0:
            number = round(math.log(event.ttft_ms) / _WIDTH)
            self.times.setdefault(event.cache, Counter())[number] += 1
            if generated:
                self.models.setdefault(_bounded(event.model, self.models), Counter())[number] += 1


class Tally:
    """The requests of one tenant, or of all, over the last `window_s`. All times are seconds of one monotonic clock."""

    def __init__(self, window_s: float) -> None:
        self._length = max(1, round(window_s / SLOT_S))
        self._slots: deque[_Slot] = deque()

    def add(self, event: Finished, now_s: float) -> None:
        """Takes in a request that has ended now."""
        number = int(now_s // SLOT_S)
        if not self._slots or self._slots[-1].number < number:
            self._slots.append(_Slot(number))
            while self._slots[0].number <= number - self._length:
                self._slots.popleft()
        self._slots[-1].add(event)

    def _kept(self, now_s: float) -> list[_Slot]:
        oldest = int(now_s // SLOT_S) - self._length
        return [slot for slot in self._slots if slot.number > oldest]

    def figures(self, now_s: float, begun_s: float) -> Figures:
        """What the window holds; rates count from `begun_s` at the earliest."""
        slots = self._kept(now_s)
        ended = _sum(slot.ended for slot in slots)
        times = {source: _sum(slot.times.get(source, Counter()) for slot in slots) for source in SOURCES[:-1]}
        from_s = max(begun_s, (now_s - RECENT_S) // SLOT_S * SLOT_S + SLOT_S)
        recent = [slot for slot in slots if (slot.number + 1) * SLOT_S > from_s]
        seconds = max(1.0, now_s - from_s)
        return Figures(
            requests=ended.total(),
            per_s=round(sum(slot.ended.total() for slot in recent) / seconds, 2),
            tokens_per_s=round(sum(slot.tokens for slot in recent) / seconds, 1),
            hit_rate=_hit_rate(ended),
            ended={source: ended[source] for source in SOURCES},
            ttft={"all": _percentiles(_sum(times.values()))} | {name: _percentiles(one) for name, one in times.items()},
            saved_tokens=sum(slot.saved for slot in slots),
            missed=dict(_sum(slot.missed for slot in slots).most_common()),
            failed=dict(_sum(slot.failed for slot in slots).most_common()),
        )

    def moments(self, now_s: float) -> list[Moment]:
        """Every slot of the window, oldest first, those without requests too."""
        last, ended = int(now_s // SLOT_S), {slot.number: dict(slot.ended) for slot in self._kept(now_s)}
        numbers = range(last - self._length + 1, last + 1)
        return [Moment(age_s=round(now_s - one * SLOT_S, 3), ended=ended.get(one, {})) for one in numbers]

    def model(self, name: str, now_s: float) -> Percentiles:
        """First-token times of what a model generated."""
        return _percentiles(_sum(slot.models.get(name, Counter()) for slot in self._kept(now_s)))

    def summary(self, now_s: float) -> tuple[int, float | None, float | None]:
        """The requests, the hit rate, and the P95 of all first-token times in ms."""
        slots = self._kept(now_s)
        ended = _sum(slot.ended for slot in slots)
        times = _sum(times for slot in slots for times in slot.times.values())
        return ended.total(), _hit_rate(ended), _percentiles(times).p95_ms


def _bounded(name: str, names: Mapping[str, Any]) -> str:
    return name if name in names or len(names) < MOST_NAMES else "other"


def _sum(counters: Iterable[Counter[T]]) -> Counter[T]:
    total = Counter[T]()
    for one in counters:
        total.update(one)
    return total


def _hit_rate(ended: Mapping[str, int]) -> float | None:
    done = sum(count for source, count in ended.items() if source != "failed")
    return round((ended.get("exact", 0) + ended.get("semantic", 0)) / done, 4) if done else None


def _percentiles(times: Counter[int]) -> Percentiles:
    samples = times.total()
    if not samples:
        return Percentiles()
    p50_ms, p95_ms, p99_ms = (_nearest(times, math.ceil(share * samples)) for share in (0.5, 0.95, 0.99))
    return Percentiles(samples=samples, p50_ms=p50_ms, p95_ms=p95_ms, p99_ms=p99_ms)


def _nearest(times: Counter[int], rank: int) -> float:
    """The time that `rank` of the times do not exceed."""
    for number in sorted(times):
        rank -= times[number]
        if rank <= 0:
            break
    return round(math.exp(number * _WIDTH), 3)
