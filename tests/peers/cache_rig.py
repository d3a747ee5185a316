"""What the cache's tests stand on: a replica over a real NATS and a real store, and a tenant that asks it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from hasten.bus import Bus
from hasten.cache.opinion import Load
from hasten.cache.service import Cache
from hasten.cache.settings import Settings
from hasten.changes.settings import Changes
from hasten.messages.cache import (
    CACHE_LOOKUP,
    CACHE_PUT,
    INVALIDATE,
    Answer,
    CacheLookup,
    CacheMiss,
    CachePut,
    Invalidate,
)
from hasten.vectors.opening import store
from hasten.vectors.store import StoreError, VectorStore

DIM = 8
QUESTION = "How long is the return period for shoes?"


def vector(*first: float) -> bytes:
    """A unit vector with these first components."""
    made = np.zeros(DIM, dtype="<f4")
    made[: len(first)] = first
    return bytes((made / np.linalg.norm(made)).astype("<f4").tobytes())


HERE = vector(1.0)


class Caller:
    """Asks the cache in the name of one tenant. A replica whose lease has run out, as it does on a machine that stood
    still for a second, is asked again."""

    def __init__(self, bus: Bus, tenant: str = "acme") -> None:
        self.bus, self.tenant = bus, tenant

    async def put(self, key: str, text: str = QUESTION, answer: Any = "30 days", **fields: Any) -> Any:
        whole = answer if isinstance(answer, Answer) else Answer(text=answer, model="m1")
        body = CachePut(key=key, text=text, answer=whole, **{"vector": HERE, "read_seq": 10**9, **fields})
        return await self.bus.request(CACHE_PUT, body, tenant=self.tenant)

    async def exact(self, key: str, **fields: Any) -> Any:
        return await self._found(CacheLookup(key=key, **fields))

    async def near(self, text: str = QUESTION, key: str = "other", **fields: Any) -> Any:
        body = CacheLookup(key=key, text=text, **{"vector": HERE, **fields})
        return await self._found(body)

    async def once(self, body: CacheLookup) -> Any:
        """What is said at the first time of asking."""
        return await self.bus.request(CACHE_LOOKUP, body, tenant=self.tenant)

    async def _found(self, body: CacheLookup) -> Any:
        until_s = time.monotonic() + 20
        while True:
            reply = await self.once(body)
            if not isinstance(reply, CacheMiss) or reply.reason != "lease" or time.monotonic() > until_s:
                return reply
            await asyncio.sleep(0.02)

    async def invalidate(self, **fields: Any) -> Any:
        return await self.bus.request(INVALIDATE, Invalidate(**fields), tenant=self.tenant)


@contextlib.asynccontextmanager
async def running(
    bus: Bus, vectors: VectorStore, changes: Changes | None = None, *, load: Load | None = None, **settings: Any
) -> AsyncIterator[Cache]:
    """A replica on a store; it closes the store with itself. `load` makes the model of its second opinions."""
    made = Cache(Settings(**{"dim": DIM, **settings}), bus, vectors, changes=changes, opinion=load)
    try:
        await made.start()
        yield made
    finally:
        await made.drain()
        await made.close()


class Shared:
    """A store that several replicas use and none closes."""

    def __init__(self, inner: VectorStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def close(self) -> None:
        """Leaves it open."""


@pytest.fixture
def vectors(tmp_path: Path) -> VectorStore:
    return store(":memory:", tmp_path, "cache")


@pytest_asyncio.fixture
async def cache(bus: Bus, vectors: VectorStore) -> AsyncIterator[Cache]:
    async with running(bus, vectors) as made:
        yield made


@pytest.fixture
def acme(bus: Bus) -> Caller:
    return Caller(bus)


def missed(reply: Any) -> str:
    assert isinstance(reply, CacheMiss), reply
    return reply.reason


async def cold(cache: Cache) -> None:
    """Forgets what is in memory, so that the store is asked."""
    await cache._shelf.hot.keep_only(lambda entry: False)


async def until(holds: Any, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not await holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


class Broken:
    """A store that fails at everything once it is open."""

    def __init__(self, inner: VectorStore) -> None:
        self._inner, self.broken = inner, False

    def __getattr__(self, name: str) -> Any:
        async def fail(*_: Any, **__: Any) -> Any:
            raise StoreError("the vector store could not search (Timeout)")

        return fail if self.broken and name != "close" else getattr(self._inner, name)
