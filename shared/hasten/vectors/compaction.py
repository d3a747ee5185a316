"""Optimises a copy of a collection in a process of low priority, and brings it up to date with what came meanwhile."""

import contextlib
import itertools
import sys
import uuid
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from hasten.vectors import wire
from hasten.vectors.process import EngineProcess

NICE = 5
SLICE = 64
"""Points copied by one request."""


@contextlib.asynccontextmanager
async def copier(place: Path) -> AsyncIterator[EngineProcess]:
    """A process that copies a generation to `place` and optimises it. It ends with the block, also when that is
    cancelled; raises StoreError."""
    engine = await EngineProcess.start(place)
    try:
        yield engine
    except BaseException:
        engine.kill()
        raise
    finally:
        await engine.stop()


class Behind:
    """Which points were written since a copy was made: what the copy lacks is their state now, not the writes."""

    def __init__(self) -> None:
        self._lacking: dict[str, None] = {}
        self._left = sys.maxsize
        self.written: set[str] = set()
        """All of them, also those that the copy has by now."""

    def __len__(self) -> int:
        return len(self._lacking)

    def add(self, ids: Iterable[str]) -> None:
        """Notes points before the write of them is sent."""
        named = [str(uuid.UUID(id_)) for id_ in ids]
        self._lacking.update(dict.fromkeys(named))
        self.written.update(named)

    async def shrink(self, source: EngineProcess, target: EngineProcess) -> None:
        """Copies points from one engine to the other, with nothing written during the call; raises StoreError.

        After it fewer are left than after the last one, however many were added in between.
        """
        self._left = max(0, min(self._left, len(self)) - SLICE)
        while len(self) > self._left:
            ids = list(itertools.islice(self._lacking, min(SLICE, len(self) - self._left)))
            await _copy(ids, source, target)
            for id_ in ids:
                del self._lacking[id_]


async def _copy(ids: list[str], source: EngineProcess, target: EngineProcess) -> None:
    rows = await source.ask(wire.Get(ids=ids, vectors=True), list[wire.Row])
    there = {row.id for row in rows}
    await target.ask(wire.Upsert(rows=rows))
    await target.ask(wire.Delete(ids=[id_ for id_ in ids if id_ not in there]))
