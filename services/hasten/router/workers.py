"""What is known of each worker from its own status messages, how much work waits at it, and which of them is best;
pure, the time is always given."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

import msgspec

from hasten.messages.generate import Status
from hasten.router.affinity import NO_PREFIX, Prefix, Prefixes
from hasten.router.breaker import Breaker, BreakerPolicy, State

_FORGET = 60
"""A worker is forgotten after this many times the silence after which it is gone."""
_MOST = 1000
"""So many models, workers of a model, and breakers are kept; results of workers that have not been
heard of yet come first after a start."""


class Usual(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken of a worker of the model that has not measured itself: how long an answer holds a slot, the time of
    a prompt token, and the P95 of the first token."""

    answer_ms: float
    token_ms: float
    p95_ms: float


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the choice of its worker sees it: a `key` that spreads equals, the tokens of its prompt, and how
    many of them which workers have computed already."""

    key: str
    tokens: int = 0
    cached: Mapping[str, int] = {}


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """How the time to the first token is weighed against an even load.

    `pressure` is what a ms of work per slot counts beside a ms of the time to the first token. Costs that exceed the
    least by no more than `near` of it and `near_ms` are equal.
    """

    pressure: float = 0.5
    near: float = 0.02
    near_ms: float = 20.0


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """A worker at one moment.

    `ready` says that it takes requests (heard of lately, neither starting, draining nor down). `in_flight` are the
    requests in slots, in its queue, and on the way from here; `full` goes by the worker's own word only. `tokens` is
    the prompt work waiting, `oldest_ms` how long the oldest request without a token has waited and `late_ms` how
    much longer than its prompt explains one in a slot has. `token_ms` is the time of a prompt token and `answer_ms`
    that of an answer after its first one, as the worker measured them (0: not yet). `breaker` is its state and
    `cooling_ms` how long it lets nothing through (0: the worker may be asked). `sent` counts the requests sent there
    since it was first heard of, by all replicas.
    """

    name: str
    ready: bool = True
    full: bool = False
    slots: int = 1
    in_flight: int = 0
    tokens: int = 0
    oldest_ms: float = 0.0
    late_ms: float = 0.0
    continues: bool = False
    capabilities: list[str] = []
    context_window: int = 0
    token_ms: float = 0.0
    answer_ms: float = 0.0
    cooling_ms: float = 0.0
    breaker: State = "closed"
    sent: int = 0

    def wait_ms(self, usual: Usual) -> float:
        """Estimated time until a slot is free."""
        over = self.in_flight - self.slots + 1
        return max(0.0, self._work_ms(over, usual)) / self.slots if over > 0 else 0.0

    def pressure_ms(self, usual: Usual) -> float:
        """Work per slot in ms, plus for how long it seems to hang: hanging workers get no more."""
        return self._work_ms(self.in_flight, usual) / self.slots + self.hangs_ms(usual)

    def hangs_ms(self, usual: Usual) -> float:
        """For how long a request in a slot has been silent beyond what its prompt and the P95 explain."""
        return max(0.0, self.late_ms - usual.p95_ms)

    def first_token_ms(self, work: Work, usual: Usual) -> float:
        """Estimated time to the first token of a request: the wait, and the part of its prompt to be computed."""
        left = max(0, work.tokens - work.cached.get(self.name, 0))
        return self.wait_ms(usual) + left * (self.token_ms or usual.token_ms) + self.hangs_ms(usual)

    def _work_ms(self, requests: int, usual: Usual) -> float:
        return requests * (self.answer_ms or usual.answer_ms) + self.tokens * (self.token_ms or usual.token_ms)


class _Worker:
    def __init__(self, status: Status, now_s: float) -> None:
        self.status, self.heard_s = status, now_s
        self.sent: list[tuple[float, int]] = []
        """Requests routed here that the worker's last status may not have counted: when, and prompt tokens."""
        self.count = 0

    def older(self, status: Status) -> bool:
        """Whether `status` was overtaken: of an earlier start, or of the same start with no higher number."""
        return (status.started_ms, status.seq) <= (self.status.started_ms, self.status.seq)


class Workers:
    """Every worker heard of, by model slug; times are seconds of one monotonic clock."""

    def __init__(self, gone_s: float = 2.0, arrival_s: float = 0.05, breaker: BreakerPolicy | None = None) -> None:
        self._gone_s, self._arrival_s, self._policy = gone_s, arrival_s, breaker or BreakerPolicy()
        self._known: dict[str, dict[str, _Worker]] = {}
        self._prefixes: dict[str, Prefixes] = {}
        self._breakers: dict[tuple[str, str], Breaker] = {}
        self._swept_s = float("-inf")

    def hear(self, slug: str, name: str, status: Status, now_s: float, *, ours: bool = True) -> int:
        """Takes in a status and returns how many were missed before it; an older one than the last is ignored, and so
        are workers beyond the number that is kept, first those of models that are not `ours`."""
        if not self._has_room(slug, name, now_s, ours):
            return 0
        workers = self._known.setdefault(slug, {})
        known = workers.get(name)
        here = known is not None and now_s - known.heard_s <= self._gone_s
        if known is not None and here and known.older(status):
            return 0
        if known is None or status.started_ms != known.status.started_ms:
            self._begin(slug, name, status, now_s, anew=known is not None)
            return 0
        missed = status.seq - known.status.seq - 1 if here else 0
        known.status, known.heard_s = status, now_s
        known.sent = [sent for sent in known.sent if now_s - sent[0] < self._arrival_s]
        return missed

    def _has_room(self, slug: str, name: str, now_s: float, ours: bool) -> bool:
        workers = self._known.get(slug, {})
        if name in workers:
            return True
        if now_s - self._swept_s >= self._gone_s:
            self._swept_s = now_s
            self._sweep(now_s)
        return len(workers) < _MOST and (ours or slug in self._known or len(self._known) < _MOST)

    def _sweep(self, now_s: float) -> None:
        for slug, workers in list(self._known.items()):
            for name, worker in list(workers.items()):
                if now_s - worker.heard_s > _FORGET * self._gone_s:
                    self._forget(slug, name)
            if not workers:
                del self._known[slug]
                self._prefixes.pop(slug, None)

    def _begin(self, slug: str, name: str, status: Status, now_s: float, *, anew: bool) -> None:
        """A worker is new here, or was started anew: then its cache is empty, and what had failed may be mended."""
        if anew:
            self._forget(slug, name)
        self._known[slug][name] = _Worker(status, now_s)

    def _forget(self, slug: str, name: str) -> None:
        self._known[slug].pop(name, None)
        self._cache(slug).forget(name)
        self._breakers.pop((slug, name), None)

    def _cache(self, slug: str) -> Prefixes:
        return self._prefixes.setdefault(slug, Prefixes())

    def _breaker(self, slug: str, name: str) -> Breaker:
        if (slug, name) not in self._breakers:
            self._breakers[slug, name] = Breaker(self._policy)
            if len(self._breakers) > _MOST:
                del self._breakers[next(iter(self._breakers))]
        return self._breakers[slug, name]

    def sent(self, slug: str, name: str, tokens: int, now_s: float, prefix: Prefix = NO_PREFIX) -> None:
        """Counts a request routed to a worker until its next status does, and what it has computed then."""
        if (worker := self._known.get(slug, {}).get(name)) is not None:
            worker.sent.append((now_s, tokens))
            worker.count += 1
            self._breaker(slug, name).sent(now_s)
            self._cache(slug).placed(name, prefix, worker.status.cache_tokens)

    def finished(self, slug: str, name: str) -> None:
        """Takes the oldest request that the worker's status has not counted off again: one has ended there."""
        if (worker := self._known.get(slug, {}).get(name)) is not None and worker.sent:
            del worker.sent[0]

    def ended(self, slug: str, name: str, outcome: str, now_s: float) -> None:
        """Takes in how an attempt at a worker ended: `done`, or the code of its failure."""
        self._breaker(slug, name).record(outcome, now_s)

    def cached(self, slug: str, prefix: Prefix) -> dict[str, int]:
        """How many tokens of a prompt with these beginnings the workers of a model have computed already."""
        return self._cache(slug).cached(prefix) if prefix else {}

    def loads(self, slug: str, now_s: float) -> list[Load]:
        """Every worker of a model that was heard of within the time after which it is gone."""
        return [
            _load(name, worker, self._breaker(slug, name), now_s)
            for name, worker in self._known.get(slug, {}).items()
            if now_s - worker.heard_s <= self._gone_s
        ]


def _load(name: str, worker: _Worker, breaker: Breaker, now_s: float) -> Load:
    status = worker.status
    pause_ms = status.pause_ms - 1000 * (now_s - worker.heard_s)
    slots = max(1, status.slots)
    return Load(
        name=name,
        ready=status.state == "ready",
        full=status.active + status.queued >= slots + status.queue_limit,
        slots=slots,
        in_flight=status.active + status.queued + len(worker.sent),
        tokens=status.queued_tokens + sum(tokens for _, tokens in worker.sent),
        oldest_ms=status.oldest_ms,
        late_ms=status.late_ms,
        continues=status.continues,
        capabilities=status.capabilities,
        context_window=status.context_window,
        token_ms=status.token_ms,
        answer_ms=status.answer_ms,
        cooling_ms=max(0.0, pause_ms, 1000 * breaker.closed_in_s(now_s)),
        breaker=breaker.state(now_s),
        sent=worker.count,
    )


def draw(*parts: str) -> float:
    """A number in [0, 1) that these strings always give, on every replica; other strings give another."""
    return int.from_bytes(blake2b("\0".join(parts).encode(), digest_size=7).digest(), "big") / (1 << 56)


def best(loads: Iterable[Load], work: Work, usual: Usual, balance: Balance) -> Load | None:
    """The worker whose first token is soonest, what it has in its cache and what waits before it considered.

    A worker that has the prompt's beginning is worth waiting for as long as computing it elsewhere would take, and no
    longer: that bounds the load. Near-equals go to the least pressed, and equals are spread by the key of the work,
    the same way on every replica. None for no workers.
    """
    costs = [(load.first_token_ms(work, usual) + balance.pressure * load.pressure_ms(usual), load) for load in loads]
    most = min((cost for cost, _ in costs), default=0.0) * (1 + balance.near) + balance.near_ms
    near = (load for cost, load in costs if cost <= most)
    return min(near, key=lambda load: (load.pressure_ms(usual), draw(work.key, load.name)), default=None)
