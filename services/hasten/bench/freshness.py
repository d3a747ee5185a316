"""Measures how soon a change takes effect: refused by every replica that serves, and deleted from the store."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import msgspec

from hasten.bench.figures import Figure, figure
from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.cache import (
    CACHE_LOOKUP,
    CACHE_PUT,
    INVALIDATED,
    Answer,
    CacheHit,
    CacheLookup,
    CachePut,
    Invalidated,
    Stored,
)
from hasten.messages.change import APPLIED, TENANT_CHANGE, Applied, Change
from hasten.messages.failure import Failed
from hasten.replicas import members
from hasten.service import Service

WAIT_S = 5.0


class Freshened(msgspec.Struct, kw_only=True):
    """All measurements, in ms: from the acknowledgement of a change until every replica that serves has said that it
    heeds it, and until what it outdated was told to be deleted; 0 for what came before the acknowledgement."""

    refused: list[float] = []
    deleted: list[float] = []


class Listener:
    """Hears how far each replica is, and what is gone, with the time of the hearing."""

    def __init__(self, bus: Bus, tenant: str) -> None:
        self._applied: dict[str, int] = {}
        self._gone: dict[int, float] = {}
        self._news = asyncio.Event()
        self._service = Service(bus, "bench", "Hears how soon changes take effect.")
        self._service.listen(APPLIED, self._on_applied)
        self._service.listen(INVALIDATED, self._on_invalidated, tenant=tenant)

    @contextlib.asynccontextmanager
    async def hearing(self) -> AsyncIterator[None]:
        """Hears meanwhile."""
        await self._service.start()
        try:
            yield
        finally:
            await self._service.drain()

    def _on_applied(self, applied: Applied, tokens: dict[str, str]) -> None:
        self._applied[tokens["replica"]] = applied.sequence
        self._tell()

    def _on_invalidated(self, event: Invalidated, _: dict[str, str]) -> None:
        self._gone[event.sequence] = time.perf_counter()
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def applied(self, sequence: int, replicas: set[str]) -> float:
        """When all of these replicas had said that they heed the change; raises Failed(deadline)."""
        async with _patience("a replica did not apply a change"):
            while any(self._applied.get(replica, 0) < sequence for replica in replicas):
                await self._news.wait()
        return time.perf_counter()

    async def gone(self, sequence: int) -> float:
        """When what the change outdated was told to be deleted; raises Failed(deadline)."""
        async with _patience("the entry of a change was not deleted"):
            while sequence not in self._gone:
                await self._news.wait()
        return self._gone.pop(sequence)


@contextlib.asynccontextmanager
async def _patience(what: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(WAIT_S):
            yield
    except TimeoutError:
        raise Failed("deadline", f"{what} within {WAIT_S:g} s") from None


async def freshened(bus: Bus, tenant: str, rounds: int) -> Freshened:
    """Stores an answer, changes what it depends on, and looks how long it takes, that many times; raises Failed.

    The change is one of this tenant's, as a pipeline publishes it; with each round the entry is checked to be a hit
    before and none afterwards.
    """
    seen, listener = Freshened(), Listener(bus, tenant)
    async with listener.hearing():
        for number in range(-3, rounds):
            key, tag = f"fresh{number}", f"bench:{number}"
            await _store(bus, tenant, key, tag)
            replicas = await members(bus)
            sequence = await bus.store(TENANT_CHANGE, Change(tags=[tag]), tenant=tenant)
            acknowledged = time.perf_counter()
            applied = await listener.applied(sequence, replicas)
            await _looked_up(bus, tenant, key, hit=False)
            gone = await listener.gone(sequence)
            if number >= 0:
                seen.refused.append((applied - acknowledged) * 1000)
                seen.deleted.append(max(0.0, gone - acknowledged) * 1000)
    return seen


async def _store(bus: Bus, tenant: str, key: str, tag: str) -> None:
    """Puts an answer that can be hit from then on."""
    read_seq = await _looked_up(bus, tenant, key, hit=False)
    body = CachePut(key=key, answer=Answer(text="it costs 12 euros"), tags=[tag], read_seq=read_seq)
    reply = await bus.request(CACHE_PUT, body, tenant=tenant)
    if not isinstance(reply, Stored):
        raise Failed("unavailable", f"the cache did not store an answer of the benchmark: {reply}")
    await _looked_up(bus, tenant, key, hit=True)


async def _looked_up(bus: Bus, tenant: str, key: str, *, hit: bool) -> int:
    """How far the replica that answered had read; raises Failed unless it is a hit, or a miss, as it has to be."""
    until_ms = now_ms() + WAIT_S * 1000
    while True:
        reply = await bus.request(CACHE_LOOKUP, CacheLookup(key=key), tenant=tenant)
        if isinstance(reply, CacheHit) == hit or now_ms() > until_ms:
            break
    if isinstance(reply, CacheHit) != hit:
        raise Failed("internal", f"an entry of the benchmark came back as {type(reply).__name__}")
    return int(getattr(reply, "read_seq", 0))


def freshness_figures(seen: Freshened, bare: list[float]) -> list[Figure]:
    """The rows for the table, beside bare round trips of the same run (ms)."""
    beside, budget = ("bare NATS", bare), "p99 < 50 ms"
    return [
        figure("change published, to refused everywhere", seen.refused, baseline=beside, budget=budget, p99=50),
        figure("  to deleted", seen.deleted, baseline=beside, budget=budget, p99=50),
    ]
