"""Live figures from the events of the bus: hit rates, first-token times, throughput, workers, invalidations; pure."""

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any

import msgspec

from hasten.messages.attempt import ATTEMPTED, Attempted
from hasten.messages.cache import INVALIDATED, Invalidated
from hasten.messages.chat import FINISHED, Finished
from hasten.messages.generate import STATUS, Status
from hasten.tally import SLOT_S, Figures, Moment, Percentiles, Tally

HEARD = (FINISHED, STATUS, INVALIDATED, ATTEMPTED)
"""The topics whose events `Board.hear` takes."""
WINDOW_S = 300.0
GONE_S = 2.0
"""A worker that is not heard of for so long is gone (see Status), and forgotten after `FORGOTTEN_S`."""
FORGOTTEN_S = 60.0
MOST_TENANTS = 256
MOST_WORKERS = 1000
MOST_ORCHESTRATORS = 256
LATEST = 10


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """A model that was heard of: its workers that take requests, and the first-token times of what it generated.

    How many slots and requests those workers have is told to operators only."""

    name: str
    slug: str
    ready: int = 0
    ttft: Percentiles = Percentiles()
    slots: int | None = None
    active: int | None = None
    queued: int | None = None


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker by its last word, `silent_s` ago; `state` is that of Status, or `gone`. Of its `attempts` in the window
    `faults` failed. The other figures are as in Status."""

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

    `tenant` is whose figures these are, empty for all. `workers` and what follows is there for all tenants together
    only: it would tell a tenant what others do. `queued` requests wait at workers and `active` are in their `slots`;
    `lost` events never came."""

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


class _Counted:
    """What is known of one tenant, or of all."""

    def __init__(self, window_s: float) -> None:
        self.tally = Tally(window_s)
        self.latest: deque[tuple[float, str, Invalidated]] = deque(maxlen=LATEST)


class _Worker:
    """A worker's last word, when it came, and by slot of time the attempts made at it and those that failed."""

    def __init__(self, status: Status, heard_s: float) -> None:
        self.status, self.heard_s = status, heard_s
        self.attempts: deque[tuple[int, int, int]] = deque()

    def overtaken(self, status: Status) -> bool:
        return (status.started_ms, status.seq) <= (self.status.started_ms, self.status.seq)

    def state(self, now_s: float) -> str:
        return self.status.state if now_s - self.heard_s <= GONE_S else "gone"


class Board:
    """Takes events as they come (`hear`) and shows them (`view`). All times are seconds of one monotonic clock, and
    `now_s` is the present; figures reach back `window_s` at most. What it holds is bounded."""

    def __init__(self, now_s: float, *, window_s: float = WINDOW_S) -> None:
        self._begun_s, self._window_s = now_s, window_s
        self._all = _Counted(window_s)
        self._tenants: OrderedDict[str, _Counted] = OrderedDict()
        self._workers: dict[tuple[str, str], _Worker] = {}
        self._numbers: OrderedDict[str, int] = OrderedDict()
        self._lost = 0

    def hear(self, event: Any, tokens: Mapping[str, str], now_s: float) -> None:
        """Takes in an event of one of the topics `HEARD`; `tokens` are those of its subject."""
        if isinstance(event, Finished):
            self._all.tally.add(event, now_s)
            self._of(tokens["tenant"]).tally.add(event, now_s)
            self._number(event)
        elif isinstance(event, Invalidated):
            for counted in (self._all, self._of(tokens["tenant"])):
                counted.latest.appendleft((now_s, tokens["tenant"], event))
        elif isinstance(event, Status):
            self._on_status((tokens["slug"], tokens["worker"]), event, now_s)
        elif isinstance(event, Attempted):
            self._on_attempted((tokens["slug"], event.worker), event, now_s)

    def _of(self, tenant: str) -> _Counted:
        counted = self._tenants.setdefault(tenant, _Counted(self._window_s))
        self._tenants.move_to_end(tenant)
        if len(self._tenants) > MOST_TENANTS:
            self._tenants.popitem(last=False)
        return counted

    def _number(self, event: Finished) -> None:
        before = self._numbers.get(event.source, event.seq - 1)
        self._lost += max(0, event.seq - before - 1)
        self._numbers[event.source] = max(before, event.seq)
        self._numbers.move_to_end(event.source)
        if len(self._numbers) > MOST_ORCHESTRATORS:
            self._numbers.popitem(last=False)

    def _on_status(self, whose: tuple[str, str], status: Status, now_s: float) -> None:
        known = self._workers.get(whose)
        if known is None and len(self._workers) >= MOST_WORKERS:
            self._forget(now_s)
        if known is not None:
            if not known.overtaken(status):
                known.status, known.heard_s = status, now_s
        elif len(self._workers) < MOST_WORKERS:
            self._workers[whose] = _Worker(status, now_s)

    def _on_attempted(self, whose: tuple[str, str], event: Attempted, now_s: float) -> None:
        if (worker := self._workers.get(whose)) is None:
            return
        number, fault = int(now_s // SLOT_S), event.outcome not in ("done", "cancelled")
        counts = worker.attempts
        tried, failed = counts.pop()[1:] if counts and counts[-1][0] == number else (0, 0)
        counts.append((number, tried + 1, failed + fault))
        while counts[0][0] * SLOT_S < now_s - self._window_s:
            counts.popleft()

    def _forget(self, now_s: float) -> None:
        self._workers = {who: one for who, one in self._workers.items() if now_s - one.heard_s <= FORGOTTEN_S}

    def view(self, now_s: float, tenant: str | None = None) -> View:
        """What is shown to a tenant, or (None) to an operator, who sees all of them together and the workers."""
        self._forget(now_s)
        everything = tenant is None
        counted = self._all if tenant is None else self._tenants.get(tenant) or _Counted(self._window_s)
        shown = View(
            tenant=tenant or "",
            window_s=self._window_s,
            seconds=round(min(self._window_s, now_s - self._begun_s), 3),
            figures=counted.tally.figures(now_s, self._begun_s),
            moments=counted.tally.moments(now_s),
            models=self._models(counted.tally, now_s, everything=everything),
            latest=[_eviction(*one, now_s) for one in counted.latest],
        )
        return self._with_everything(shown, now_s) if everything else shown

    def _models(self, tally: Tally, now_s: float, *, everything: bool) -> list[ModelRow]:
        by_slug: dict[str, list[_Worker]] = {}
        for (slug, _), worker in sorted(self._workers.items(), key=_whose):
            by_slug.setdefault(slug, []).append(worker)
        rows = []
        for slug, workers in by_slug.items():
            name = workers[-1].status.model
            ready = [one.status for one in workers if one.state(now_s) == "ready"]
            row = ModelRow(name=name, slug=slug, ready=len(ready), ttft=tally.model(name, now_s))
            rows.append(msgspec.structs.replace(row, **_load(ready)) if everything else row)
        return rows

    def _with_everything(self, shown: View, now_s: float) -> View:
        workers = [self._worker(*item, now_s) for item in sorted(self._workers.items(), key=_whose)]
        heard = [one.status for one in self._workers.values() if one.state(now_s) != "gone"]
        tenants = [_tenant(name, counted.tally, now_s) for name, counted in self._tenants.items()]
        tenants = sorted((row for row in tenants if row.requests), key=lambda row: (-row.requests, row.name))
        return msgspec.structs.replace(shown, workers=workers, tenants=tenants, lost=self._lost, **_load(heard))

    def _worker(self, whose: tuple[str, str], worker: _Worker, now_s: float) -> WorkerRow:
        status = worker.status
        counts = [one for one in worker.attempts if one[0] * SLOT_S >= now_s - self._window_s]
        return WorkerRow(
            name=whose[1],
            model=status.model,
            slug=whose[0],
            state=worker.state(now_s),
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


def _whose(item: tuple[tuple[str, str], _Worker]) -> tuple[str, str]:
    return item[0]


def _load(statuses: list[Status]) -> dict[str, int]:
    return {name: sum(getattr(status, name) for status in statuses) for name in ("slots", "active", "queued")}


def _tenant(name: str, tally: Tally, now_s: float) -> TenantRow:
    requests, hit_rate, p95_ms = tally.summary(now_s)
    return TenantRow(name=name, requests=requests, hit_rate=hit_rate, p95_ms=p95_ms)


def _eviction(at_s: float, tenant: str, event: Invalidated, now_s: float) -> Eviction:
    return Eviction(
        tenant=tenant,
        age_s=round(now_s - at_s, 1),
        tags=event.tags,
        entries=event.entries,
        reason=event.reason,
        sequence=event.sequence,
    )
