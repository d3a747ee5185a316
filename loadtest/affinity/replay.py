"""Replays the trace in virtual time: routers with the product's own knowledge of workers, and workers with the
simulator's own cache and times."""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from hasten.messages.generate import Status
from hasten.models import EngineConfig
from hasten.orchestrator.prefix import thinned
from hasten.router.affinity import Prefix
from hasten.router.workers import Workers
from hasten.worker.engines.prefix_cache import PrefixCache, decode_s, prefill_s
from hasten.worker.speed import Speed
from loadtest.affinity.policy import Facts, Policy
from loadtest.affinity.trace import BLOCK, Asked

STATUS_S = 0.25
SLUG = "sim"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a replay: the share of prompt blocks that were cached, the time to each first token in the order of
    the requests, and how many requests each worker got."""

    hit_rate: float
    ttft_s: list[float]
    shares: list[int]


class Clock:
    """Virtual time: does what is due in the order of its times."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, when_s: float, do: Callable[[], None]) -> None:
        """Does this then."""
        heapq.heappush(self._due, (when_s, next(self._order), do))

    def run_until(self, over: Callable[[], bool]) -> None:
        """Goes on until it is over."""
        while not over():
            self.now_s, _, do = heapq.heappop(self._due)
            do()


class SimWorker:
    """A worker: a line, slots that do not slow each other down, and a prefix cache."""

    def __init__(self, name: str, config: EngineConfig, clock: Clock) -> None:
        self.name, self._config, self._clock = name, config, clock
        self._cache = PrefixCache(config.cache_tokens // BLOCK)
        self._line: deque[tuple[int, Asked]] = deque()
        self._silent: dict[int, float] = {}
        self._begun: dict[int, tuple[float, int]] = {}
        self._speed = Speed()
        self._active, self._seq = 0, 0
        self.asked = self.reused = 0
        self.first_s: dict[int, float] = {}

    def ask(self, number: int, request: Asked) -> None:
        """A request comes in."""
        self.asked += 1
        self._silent[number] = self._clock.now_s
        self._line.append((number, request))
        self._next()

    def _next(self) -> None:
        while self._line and self._active < self._config.slots:
            self._active += 1
            self._begin(*self._line.popleft())

    def _begin(self, number: int, request: Asked) -> None:
        self._begun[number] = self._clock.now_s, request.input_length
        known = self._cache.known(request.hash_ids)
        self.reused += known
        computed = request.input_length - min(known * BLOCK, request.input_length - 1)
        wait_s = prefill_s(self._config, computed, 0)

        def first() -> None:
            del self._begun[number]
            self._cache.remember(request.hash_ids)
            self.first_s[number] = self._clock.now_s - self._silent.pop(number)
            self._clock.at(self._clock.now_s + answer_s, end)

        def end() -> None:
            self._active -= 1
            self._speed.finished(1000 * wait_s, computed, 1000 * answer_s)
            self._next()

        answer_s = decode_s(self._config, request.output_length)
        self._clock.at(self._clock.now_s + wait_s, first)

    def _late_ms(self) -> float:
        """As the worker's line says it."""
        now_s, usual = self._clock.now_s, self._speed.first_ms
        late = (1000 * (now_s - begun_s) - usual(tokens) for begun_s, tokens in self._begun.values())
        return max((max(0.0, one) for one in late), default=0.0)

    def status(self) -> Status:
        """What it says of itself."""
        self._seq += 1
        oldest_s = min(self._silent.values(), default=self._clock.now_s)
        return Status(
            seq=self._seq,
            started_ms=1,
            state="ready",
            engine="sim",
            model=SLUG,
            slots=self._config.slots,
            active=self._active,
            queued=len(self._line),
            queue_limit=1 << 30,
            queued_tokens=sum(request.input_length for _, request in self._line),
            oldest_ms=1000 * (self._clock.now_s - oldest_s),
            late_ms=self._late_ms(),
            cache_tokens=self._config.cache_tokens,
            token_ms=self._speed.token_ms,
            answer_ms=self._speed.answer_ms,
        )


def prefix_of(request: Asked) -> Prefix:
    """The marks of a request's prompt: the blocks of the trace, thinned as an orchestrator thins them."""
    marks = [(str(block), min(request.input_length, BLOCK * at)) for at, block in enumerate(request.hash_ids, 1)]
    return dict(thinned(marks))


def replay(
    trace: Sequence[Asked],
    policy: Policy,
    configs: Sequence[EngineConfig],
    *,
    faster: float = 1.0,
    routers: int = 1,
    told: bool = True,
) -> Outcome:
    """Sends the requests, `faster` than they came, to one worker for each of the `configs`.

    The `routers` take turns; each has heard every status, and with `told` of every request that the others have sent.
    """
    clock = Clock()
    workers = {f"w{at}": SimWorker(f"w{at}", config, clock) for at, config in enumerate(configs)}
    replicas = [Workers() for _ in range(routers)]
    names = list(workers)

    def announce(worker: SimWorker) -> None:
        status = worker.status()
        for replica in replicas:
            replica.hear(SLUG, worker.name, status, clock.now_s)
        clock.at(clock.now_s + STATUS_S, lambda: announce(worker))

    def ask(number: int, request: Asked) -> None:
        decides, prefix = replicas[number % routers], prefix_of(request)
        loads, cached = decides.loads(SLUG, clock.now_s), decides.cached(SLUG, prefix)
        name = policy(Facts(number, request.input_length, prefix, names, loads, cached))
        left = request.input_length - cached.get(name, 0)
        for replica in replicas if told else [decides]:
            replica.sent(SLUG, name, left, clock.now_s, prefix)
        workers[name].ask(number, request)

    start_s = trace[0].at_s
    for at, worker in enumerate(workers.values()):
        clock.at(STATUS_S * at / len(names), lambda worker=worker: announce(worker))  # type: ignore[misc]
    for number, request in enumerate(trace):
        due_s = STATUS_S + (request.at_s - start_s) / faster
        clock.at(due_s, lambda number=number, request=request: ask(number, request))  # type: ignore[misc]
    clock.run_until(lambda: sum(len(worker.first_s) for worker in workers.values()) == len(trace))
    first_s = {number: wait_s for worker in workers.values() for number, wait_s in worker.first_s.items()}
    return Outcome(
        hit_rate=sum(worker.reused for worker in workers.values()) / sum(len(one.hash_ids) for one in trace),
        ttft_s=[first_s[number] for number in range(len(trace))],
        shares=[worker.asked for worker in workers.values()],
    )
