"""Live figures from the events of the bus: hit rates, first-token times, throughput, workers, invalidations; pure.

Memory does not grow with the load: requests are counted in slots of `SLOT_S` seconds, their times in classes 2% wide.
"""

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from hasten.messages.attempt import ATTEMPTED, Attempted
from hasten.messages.cache import INVALIDATED, Invalidated
from hasten.messages.chat import FINISHED, Finished
from hasten.messages.generate import STATUS, Status

HEARD = (FINISHED, STATUS, INVALIDATED, ATTEMPTED)
"""The topics whose events `Board.hear` takes."""
SOURCES = ("exact", "semantic", "shared", "miss", "failed")
"""How a request can end: from where its answer came, or without one."""
WINDOW_S = 300.0
SLOT_S = 5.0
RECENT_S = 15.0
"""Rates per second are those of the last seconds, not of the window."""
GONE_S = 2.0
"""A worker that is not heard of for so long is gone (see Status), and forgotten after `FORGOTTEN_S`."""
FORGOTTEN_S = 60.0
MOST_TENANTS = 256
MOST_WORKERS = 1000
MOST_NAMES = 32
"""Models and reasons that are told apart in a slot; the rest count as `other`."""
LATEST = 10
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
    """One slot of the window: its start, as seconds before the view, and how its requests ended."""

    age_s: float
    ended: dict[str, int]


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """A model that was heard of: its workers that take requests, and the first-token times of what it generated.

    How many slots and requests its workers have is told to operators only."""

    name: str
    slug: str
    ready: int = 0
    ttft: Percentiles = Percentiles()
    slots: int | None = None
    active: int | None = None
    queued: int | None = None


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker by its last word; `state` is that of Status, or `gone`. Of its `attempts` in the window `faults` failed.
    Speeds are prompt and answer times as in Status."""

    name: str
    model: str
    slug: str
    state: str
    engine: str
    slots: int = 1
    active: int = 0
    queued: int = 0
    oldest_ms: float = 0.0
    token_ms: float = 0.0
    answer_ms: float = 0.0
    loop_lag_ms: float = 0.0
    attempts: int = 0
    faults: int = 0
    silent_s: float = 0.0


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """Answers that were removed, `age_s` ago."""

    tenant: str
    age_s: float
    tags: list[str] = []
    entries: int = 0
    reason: str = ""
    sequence: int = 0


class TenantRow(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant among the others."""

    name: str
    requests: int
    hit_rate: float | None = None
    p95_ms: float | None = None


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The board at one moment, newest first in `latest` and oldest first in `moments`.

    `tenant` is whose figures these are, empty for all. `workers`, `tenants` and the three numbers after them are there
    for all tenants together only: they would tell a tenant what others do. `lost` events never came."""

    tenant: str = ""
    window_s: float = WINDOW_S
    slot_s: float = SLOT_S
    seconds: float = 0.0
    figures: Figures = Figures()
    moments: list[Moment] = []
    models: list[ModelRow] = []
    latest: list[Eviction] = []
    workers: list[WorkerRow] | None = None
    tenants: list[TenantRow] | None = None
    queued: int | None = None
    active: int | None = None
    slots: int | None = None
    lost: int | None = None


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
        done = event.outcome == "done"
        source = event.cache if done else "failed"
        self.ended[source] += 1
        if not done:
            self.failed[_bounded(event.outcome, self.failed)] += 1
            return
        self.tokens += event.usage.completion_tokens
        self.saved += event.usage.completion_tokens if source != "miss" else 0
        if source == "miss" and (reason := f"{event.reason} {event.guard}".strip()):
            self.missed[_bounded(reason, self.missed)] += 1
        if event.ttft_ms > 0:
            number = round(math.log(event.ttft_ms) / _WIDTH)
            self.times.setdefault(source, Counter())[number] += 1
            if source == "miss":
                self.models.setdefault(_bounded(event.model, self.models), Counter())[number] += 1


class _Tally:
    """The slots of one tenant, or of all."""

    def __init__(self) -> None:
        self._slots: deque[_Slot] = deque()
        self.latest: deque[tuple[float, str, Invalidated]] = deque(maxlen=LATEST)

    def add(self, event: Finished, number: int) -> None:
        if not self._slots or self._slots[-1].number < number:
            self._slots.append(_Slot(number))
        self._slots[-1].add(event)

    def since(self, number: int) -> list[_Slot]:
        """The slots from this one on."""
        return [slot for slot in self._slots if slot.number >= number]

    def forget(self, number: int) -> None:
        while self._slots and self._slots[0].number < number:
            self._slots.popleft()


class _Worker:
    def __init__(self, status: Status, heard_s: float) -> None:
        self.status, self.heard_s = status, heard_s


class Board:
    """Takes events as they come (`hear`) and shows them (`view`). All times are seconds of one monotonic clock, of
    which `now_s` is the present; figures reach back `window_s` at most."""

    def __init__(self, now_s: float, *, window_s: float = WINDOW_S) -> None:
        self._begun_s, self._window_s = now_s, window_s
        self._all = _Tally()
        self._tenants: OrderedDict[str, _Tally] = OrderedDict()
        self._workers: dict[tuple[str, str], _Worker] = {}
        self._attempts: dict[tuple[str, str], deque[tuple[int, int, int]]] = {}
        self._numbers: OrderedDict[str, int] = OrderedDict()
        self._lost = 0

    def hear(self, event: Any, tokens: Mapping[str, str], now_s: float) -> None:
        """Takes in an event of one of the topics `HEARD`; `tokens` are those of its subject."""
        if isinstance(event, Finished):
            self._on_finished(tokens["tenant"], event, now_s)
        elif isinstance(event, Status):
            self._on_status((tokens["slug"], tokens["worker"]), event, now_s)
        elif isinstance(event, Invalidated):
            for tally in (self._all, self._tally(tokens["tenant"])):
                tally.latest.appendleft((now_s, tokens["tenant"], event))
        elif isinstance(event, Attempted):
            self._on_attempted((tokens["slug"], event.worker), event, now_s)

    def _slot(self, now_s: float) -> int:
        return int(now_s // SLOT_S)

    def _first(self, now_s: float) -> int:
        """The oldest slot of the window."""
        return self._slot(now_s) - round(self._window_s / SLOT_S) + 1

    def _tally(self, tenant: str) -> _Tally:
        tally = self._tenants.setdefault(tenant, _Tally())
        self._tenants.move_to_end(tenant)
        if len(self._tenants) > MOST_TENANTS:
            self._tenants.popitem(last=False)
        return tally

    def _on_finished(self, tenant: str, event: Finished, now_s: float) -> None:
        number = self._slot(now_s)
        for tally in (self._all, self._tally(tenant)):
            tally.forget(self._first(now_s))
            tally.add(event, number)
        before = self._numbers.get(event.source, event.seq - 1)
        self._lost += max(0, event.seq - before - 1)
        self._numbers[event.source] = max(before, event.seq)
        self._numbers.move_to_end(event.source)
        if len(self._numbers) > MOST_NAMES:
            self._numbers.popitem(last=False)

    def _on_status(self, whose: tuple[str, str], status: Status, now_s: float) -> None:
        known = self._workers.get(whose)
        if known is not None and (known.status.started_ms, known.status.seq) >= (status.started_ms, status.seq):
            return
        if known is None and len(self._workers) >= MOST_WORKERS:
            self._forget(now_s)
            if len(self._workers) >= MOST_WORKERS:
                return
        self._workers[whose] = _Worker(status, now_s)

    def _on_attempted(self, whose: tuple[str, str], event: Attempted, now_s: float) -> None:
        if whose not in self._workers:
            return
        number, fault = self._slot(now_s), event.outcome not in ("done", "cancelled")
        counts = self._attempts.setdefault(whose, deque())
        tried, failed = counts.pop()[1:] if counts and counts[-1][0] == number else (0, 0)
        counts.append((number, tried + 1, failed + fault))
        while counts[0][0] < self._first(now_s):
            counts.popleft()

    def _forget(self, now_s: float) -> None:
        for whose in [one for one, worker in self._workers.items() if now_s - worker.heard_s > FORGOTTEN_S]:
            del self._workers[whose]
            self._attempts.pop(whose, None)

    def view(self, now_s: float, tenant: str | None = None) -> View:
        """What is shown to a tenant, or (None) to an operator, who sees all of them together and the workers."""
        self._forget(now_s)
        first, number = self._first(now_s), self._slot(now_s)
        tally = self._all if tenant is None else self._tenants.get(tenant, _Tally())
        slots = tally.since(first)
        shown = View(
            tenant=tenant or "",
            window_s=self._window_s,
            seconds=round(min(self._window_s, now_s - self._begun_s), 3),
            figures=self._figures(slots, now_s),
            moments=_moments(slots, first, number, now_s),
            models=self._models(slots, now_s, everything=tenant is None),
            latest=[_eviction(*one, now_s) for one in tally.latest],
        )
        return shown if tenant is not None else self._with_all(shown, first, now_s)

    def _figures(self, slots: list[_Slot], now_s: float) -> Figures:
        ended = _sum(slot.ended for slot in slots)
        times = {source: _sum(slot.times.get(source, Counter()) for slot in slots) for source in SOURCES[:-1]}
        recent_s = max(self._begun_s, (self._slot(now_s - RECENT_S) + 1) * SLOT_S)
        recent = [slot for slot in slots if (slot.number + 1) * SLOT_S > recent_s]
        seconds = max(1.0, now_s - recent_s)
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

    def _models(self, slots: list[_Slot], now_s: float, *, everything: bool) -> list[ModelRow]:
        by_slug: dict[str, list[_Worker]] = {}
        for (slug, _), worker in self._workers.items():
            by_slug.setdefault(slug, []).append(worker)
        rows = []
        for slug, workers in sorted(by_slug.items()):
            name = workers[-1].status.model
            times = _sum(slot.models.get(name, Counter()) for slot in slots)
            ready = [one.status for one in workers if _state(one, now_s) == "ready"]
            row = ModelRow(name=name, slug=slug, ready=len(ready), ttft=_percentiles(times))
            rows.append(row if not everything else msgspec.structs.replace(row, **_load(ready)))
        return rows

    def _with_all(self, shown: View, first: int, now_s: float) -> View:
        workers = [self._worker(whose, one, first, now_s) for whose, one in sorted(self._workers.items(), key=_name)]
        heard = [one.status for one in self._workers.values() if _state(one, now_s) != "gone"]
        tenants = [_tenant(name, tally.since(first)) for name, tally in self._tenants.items()]
        tenants = sorted((row for row in tenants if row.requests), key=lambda row: (-row.requests, row.name))
        return msgspec.structs.replace(shown, workers=workers, tenants=tenants, lost=self._lost, **_load(heard))

    def _worker(self, whose: tuple[str, str], worker: _Worker, first: int, now_s: float) -> WorkerRow:
        status, counts = worker.status, [one for one in self._attempts.get(whose, ()) if one[0] >= first]
        return WorkerRow(
            name=whose[1],
            model=status.model,
            slug=whose[0],
            state=_state(worker, now_s),
            engine=status.engine,
            slots=status.slots,
            active=status.active,
            queued=status.queued,
            oldest_ms=status.oldest_ms,
            token_ms=status.token_ms,
            answer_ms=status.answer_ms,
            loop_lag_ms=status.loop_lag_ms,
            attempts=sum(tried for _, tried, _ in counts),
            faults=sum(failed for _, _, failed in counts),
            silent_s=round(now_s - worker.heard_s, 1),
        )


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
    found: list[float] = []
    for share in (0.5, 0.95, 0.99):
        rank, seen = math.ceil(share * samples), 0
        for number in sorted(times):
            seen += times[number]
            if seen >= rank:
                found.append(round(math.exp(number * _WIDTH), 3))
                break
    return Percentiles(samples=samples, p50_ms=found[0], p95_ms=found[1], p99_ms=found[2])


def _moments(slots: list[_Slot], first: int, last: int, now_s: float) -> list[Moment]:
    """Every slot of the window, those without requests too."""
    ended = {slot.number: dict(slot.ended) for slot in slots}
    return [
        Moment(age_s=round(now_s - number * SLOT_S, 3), ended=ended.get(number, {}))
        for number in range(first, last + 1)
    ]


def _state(worker: _Worker, now_s: float) -> str:
    return worker.status.state if now_s - worker.heard_s <= GONE_S else "gone"


def _load(statuses: list[Status]) -> dict[str, int]:
    return {name: sum(getattr(status, name) for status in statuses) for name in ("slots", "active", "queued")}


def _name(item: tuple[tuple[str, str], Any]) -> tuple[str, str]:
    return item[0]


def _tenant(name: str, slots: list[_Slot]) -> TenantRow:
    ended = _sum(slot.ended for slot in slots)
    p95_ms = _percentiles(_sum(times for slot in slots for times in slot.times.values())).p95_ms
    return TenantRow(name=name, requests=ended.total(), hit_rate=_hit_rate(ended), p95_ms=p95_ms)


def _eviction(at_s: float, tenant: str, event: Invalidated, now_s: float) -> Eviction:
    return Eviction(
        tenant=tenant,
        age_s=round(now_s - at_s, 1),
        tags=event.tags,
        entries=event.entries,
        reason=event.reason,
        sequence=event.sequence,
    )
