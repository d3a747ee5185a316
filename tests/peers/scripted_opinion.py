"""A second opinion that says what a test tells it, and a replica that asks it."""

import contextlib
import threading
from collections.abc import AsyncIterator, Iterable
from typing import Any

from cache_rig import DIM

from hasten.bus import Bus
from hasten.cache.service import Cache
from hasten.cache.settings import Settings
from hasten.vectors.store import VectorStore


class ScriptedModel:
    """Finds the questions of one group the same, either way; `everything` is the same when no groups are given.

    `heard` are the pairs that it was asked, in order. It answers while `free` is set, and fails at `crashes`.
    """

    def __init__(self, *groups: Iterable[str], crashes: Iterable[str] = (), one_way: bool = False) -> None:
        self._groups = [frozenset(group) for group in groups]
        self._crashes, self._one_way = frozenset(crashes), one_way
        self.heard: list[tuple[str, str]] = []
        self.free = threading.Event()
        self.free.set()

    def score(self, premise: str, claim: str) -> float:
        self.heard.append((premise, claim))
        self.free.wait()
        if premise in self._crashes:
            raise RuntimeError("out of memory")
        if self._one_way and len(self.heard) % 2 == 0:
            return 0.0
        same = not self._groups or any({premise, claim} <= group for group in self._groups)
        return 0.99 if same else 0.02


@contextlib.asynccontextmanager
async def advised(bus: Bus, vectors: VectorStore, model: ScriptedModel, **settings: Any) -> AsyncIterator[Cache]:
    """A replica that asks this model; it closes the store with itself. What others have said is waited for long."""
    given = {"opinion_ms": 30_000.0, **settings}
    made = Cache(Settings(dim=DIM, opinion="scripted", **given), bus, vectors, opinion=lambda: model)
    try:
        await made.start()
        yield made
    finally:
        await made.drain()
        await made.close()
