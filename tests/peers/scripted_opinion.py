"""A second opinion that says what a test tells it, and a replica that asks it."""

import contextlib
import threading
from collections.abc import Iterable
from typing import Any

from cache_rig import running

from hasten.bus import Bus
from hasten.cache.service import Cache
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


def advised(
    bus: Bus, vectors: VectorStore, model: ScriptedModel, **settings: Any
) -> contextlib.AbstractAsyncContextManager[Cache]:
    """A replica that asks this model. What others have said is waited for long."""
    return running(bus, vectors, load=lambda: model, **{"opinion": "scripted", "opinion_ms": 30_000.0, **settings})
