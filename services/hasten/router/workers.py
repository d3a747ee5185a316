"""What is known of each worker from its own status messages, and how much work waits at it."""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from hasten.messages.generate import Status


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """A worker at one moment.

    `ready` says that it takes requests (heard of lately, neither starting, draining nor down). `in_flight` are the
    requests in slots, in its queue, and on the way from here; `full` goes by the worker's own word only. `tokens` is
    the prompt work waiting, `oldest_ms` how long the oldest request without a token has waited. A worker whose last
    requests have failed gets none for another `cooling_ms`.
    """

    name: str
    ready: bool = True
    full: bool = False
    slots: int = 1
    in_flight: int = 0
    tokens: int = 0
    oldest_ms: float = 0.0
    cooling_ms: float = 0.0
    continues: bool = False
    capabilities: list[str] = []
    context_window: int = 0

    def wait_ms(self, service_ms: float, token_ms: float) -> float:
        """Estimated time until a slot is free, when a request holds one for `service_ms`."""
        over = self.in_flight - self.slots + 1
        return max(0.0, over * service_ms + self.tokens * token_ms) / self.slots if over > 0 else 0.0

    def pressure_ms(self, service_ms: float, token_ms: float, p95_ms: float) -> float:
        """Work per slot in ms, plus what the oldest request waits beyond the usual: hanging workers get no more."""
        work = (self.in_flight * service_ms + self.tokens * token_ms) / self.slots
        return work + max(0.0, self.oldest_ms - p95_ms)


class _Worker:
    def __init__(self, status: Status, now_s: float) -> None:
        self.status, self.heard_s = status, now_s
        self.sent: list[tuple[float, int]] = []
        """Requests routed here that the worker's last status may not have counted: when, and prompt tokens."""

    def older(self, status: Status) -> bool:
        """Whether `status` was overtaken: of an earlier start, or of the same start with no higher number."""
        return (status.started_ms, status.seq) <= (self.status.started_ms, self.status.seq)


class Workers:
    """Every worker heard of, by model slug; times are seconds of one monotonic clock."""

    def __init__(self, gone_s: float = 2.0, arrival_s: float = 0.05) -> None:
        self._gone_s, self._arrival_s = gone_s, arrival_s
        self._known: dict[str, dict[str, _Worker]] = {}

    def hear(self, slug: str, name: str, status: Status, now_s: float) -> int:
        """Takes in a status and returns how many were missed before it; an older one than the last is ignored."""
        workers = self._known.setdefault(slug, {})
        known = workers.get(name)
        if known is None or now_s - known.heard_s > self._gone_s:
            self._forget(workers, now_s)
            workers[name] = _Worker(status, now_s)
            return 0
        if known.older(status):
            return 0
        same_start = status.started_ms == known.status.started_ms
        missed = status.seq - known.status.seq - 1 if same_start else 0
        known.status, known.heard_s = status, now_s
        known.sent = [sent for sent in known.sent if same_start and now_s - sent[0] < self._arrival_s]
        return missed

    def _forget(self, workers: dict[str, _Worker], now_s: float) -> None:
        for name in [name for name, worker in workers.items() if now_s - worker.heard_s > 60 * self._gone_s]:
            del workers[name]

    def sent(self, slug: str, name: str, tokens: int, now_s: float) -> None:
        """Counts a request routed to a worker until its next status does."""
        if (worker := self._known.get(slug, {}).get(name)) is not None:
            worker.sent.append((now_s, tokens))

    def finished(self, slug: str, name: str) -> None:
        """Takes the oldest request that the worker's status has not counted off again: one has ended there."""
        if (worker := self._known.get(slug, {}).get(name)) is not None and worker.sent:
            del worker.sent[0]

    def loads(self, slug: str, now_s: float) -> list[Load]:
        """Every worker of a model that was heard of within the time after which it is gone."""
        workers = self._known.get(slug, {}).items()
        return [_load(name, worker) for name, worker in workers if now_s - worker.heard_s <= self._gone_s]


def _load(name: str, worker: _Worker) -> Load:
    status = worker.status
    slots = max(1, status.slots)
    return Load(
        name=name,
        ready=status.state == "ready",
        full=status.active + status.queued >= slots + status.queue_limit,
        slots=slots,
        in_flight=status.active + status.queued + len(worker.sent),
        tokens=status.queued_tokens + sum(tokens for _, tokens in worker.sent),
        oldest_ms=status.oldest_ms,
        continues=status.continues,
        capabilities=status.capabilities,
        context_window=status.context_window,
    )


def draw(*parts: str) -> float:
    """A number in [0, 1) that these strings always give, on every replica; other strings give another."""
    return int.from_bytes(blake2b("\0".join(parts).encode(), digest_size=7).digest(), "big") / (1 << 56)


def least_pressed(loads: Iterable[Load], key: str, service_ms: float, token_ms: float, p95_ms: float) -> Load | None:
    """The worker with the least work per slot; equals are spread by the request's `key`. None for no workers."""
    return min(
        loads,
        key=lambda load: (load.pressure_ms(service_ms, token_ms, p95_ms), draw(key, load.name)),
        default=None,
    )
