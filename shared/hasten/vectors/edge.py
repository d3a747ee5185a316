"""The embedded store: Qdrant's engine on a folder, in a process of its own that this one starts and ends."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hasten.telemetry import logger
from hasten.vectors import wire
from hasten.vectors.checks import check_ids, check_indexes, check_points, check_vector
from hasten.vectors.compaction import Behind, optimize_copy
from hasten.vectors.generations import Generations
from hasten.vectors.process import EngineProcess, encoded
from hasten.vectors.store import IndexKind, Match, Point, StoreError, Vector, Where

SLICE = 64
"""Points per request to the engine: a search waits for at most one, about 3 ms."""
COMPACT_AFTER = 5000
"""Points written or deleted, and as many as there are, before the collection is compacted: below that a search does
without a graph and what was deleted takes little room."""
TAKE_S = 3.0
"""How long to wait for the engine of an owner that was killed to notice."""

T = TypeVar("T")
log = logger("vectors")


class EdgeStore:
    """A VectorStore in a folder that only one process may have open; nothing acknowledged is lost by a kill -9.

    A compaction runs beside it, in a process of low priority on a copy, and takes over with what was written
    meanwhile: reads and writes go on.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._generations = Generations(folder)
        self._engine: EngineProcess | None = None
        self._open = wire.Open(dim=0, indexes={})
        self._writing = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._behind: Behind | None = None
        self._changes = 0
        self._compaction: asyncio.Task[None] | None = None

    @property
    def _dim(self) -> int:
        if self._engine is None:
            raise StoreError(f"the collection {self._folder.name} is not open")
        return self._open.dim

    async def open(self, dim: int, indexes: dict[str, IndexKind]) -> list[str]:
        """Takes the folder and starts the engine; see VectorStore."""
        check_indexes(indexes)
        await self._take()
        try:
            await _to_the_end(self._generations.tidy)
            self._open = wire.Open(dim=dim, indexes=indexes)
            return await self._start()
        except BaseException:
            await self._stop()
            raise

    async def _take(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + TAKE_S
        while True:
            try:
                return self._generations.take()
            except StoreError:
                if loop.time() > until:
                    raise
                await asyncio.sleep(0.05)

    async def _start(self) -> list[str]:
        self._engine = await EngineProcess.start(self._generations.current, lock=self._generations.lock)
        made: list[str] = await self._engine.ask(self._open, list[str])
        return made

    async def _stop(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.stop()
        self._generations.leave()

    async def _running(self) -> EngineProcess:
        """The engine, started again if it has ended."""
        engine = self._engine
        if engine is None:
            raise StoreError(f"the collection {self._folder.name} is not open")
        if engine.alive:
            return engine
        async with self._starting:
            if self._engine is engine:
                log.error("the engine of the collection %s ended; it is started again", self._folder.name)
                await engine.stop()
                await self._start()
        return self._engine or engine

    async def _ask(self, request: wire.AnyRequest, kind: Any = Any) -> Any:
        return await (await self._running()).ask(request, kind)

    async def _write(self, request: wire.Upsert | wire.SetPayload | wire.Delete, changes: int, kind: Any = Any) -> Any:
        """Sends a write, and keeps it for a compaction that is under way. Call it with `_writing` held."""
        engine, frame = await self._running(), encoded(request)
        if self._behind is not None:
            self._behind.add(frame)
        result = await engine.ask_encoded(frame, kind)
        self._changes += changes
        return result

    async def upsert(self, points: list[Point]) -> None:
        """Writes in slices; all are checked before the first is written."""
        check_points(points, self._dim)
        async with self._writing:
            for start in range(0, len(points), SLICE):
                rows = [wire.row_of(point) for point in points[start : start + SLICE]]
                await self._write(wire.Upsert(rows=rows), len(rows))
        await self._compact_if_due()

    async def get(self, ids: list[str]) -> list[Point]:
        """See VectorStore."""
        check_ids(ids)
        return [wire.point_of(row) for row in await self._ask(wire.Get(ids=ids), list[wire.Row])]

    async def search(self, vector: Vector, where: Where, limit: int) -> list[Match]:
        """See VectorStore."""
        check_vector(vector, self._dim)
        if limit < 1:
            return []
        raw = np.asarray(vector, dtype="<f4").tobytes()
        found: list[Match] = await self._ask(wire.Search(vector=raw, where=where, limit=limit), list[Match])
        return found

    async def scroll(self, where: Where, limit: int, *, vectors: bool = False) -> list[Point]:
        """See VectorStore."""
        if limit < 1:
            return []
        rows = await self._ask(wire.Scroll(where=where, limit=limit, vectors=vectors), list[wire.Row])
        return [wire.point_of(row) for row in rows]

    async def set_payload(self, ids: list[str], payload: dict[str, Any]) -> None:
        """See VectorStore."""
        check_ids(ids)
        async with self._writing:
            await self._write(wire.SetPayload(ids=ids, payload=payload), 0)

    async def delete(self, *, ids: list[str] | None = None, where: Where | None = None) -> int:
        """Deletes in slices; a filter is evaluated anew for each, so that nothing written meanwhile is missed."""
        ids = ids or []
        check_ids(ids)
        gone = 0
        async with self._writing:
            for start in range(0, len(ids), SLICE):
                gone += await self._delete(ids[start : start + SLICE])
            while where is not None and (found := await self._matching(where)):
                gone += await self._delete(found)
        await self._compact_if_due()
        return gone

    async def _delete(self, ids: list[str]) -> int:
        return int(await self._write(wire.Delete(ids=ids), len(ids), int))

    async def _matching(self, where: Where) -> list[str]:
        request = wire.Scroll(where=where, limit=SLICE, payloads=False)
        return [row.id for row in await self._ask(request, list[wire.Row])]

    async def count(self, where: Where | None = None) -> int:
        """See VectorStore."""
        return int(await self._ask(wire.Count(where=where), int))

    async def _compact_if_due(self) -> None:
        if self._compaction is None and self._changes >= COMPACT_AFTER and self._changes >= await self.count():
            self._compacting()

    def _compacting(self) -> "asyncio.Task[None]":
        """The compaction that is under way, or a new one."""
        if self._compaction is None:
            self._compaction = asyncio.get_running_loop().create_task(self._compact())
            self._compaction.add_done_callback(self._compacted)
        return self._compaction

    def _compacted(self, compaction: "asyncio.Task[None]") -> None:
        self._changes, self._compaction, self._behind = 0, None, None
        if not compaction.cancelled() and (error := compaction.exception()) is not None:
            log.warning("the collection %s was not compacted: %s", self._folder.name, error)

    async def _compact(self) -> None:
        try:
            async with self._writing:
                place = await _to_the_end(self._generations.copy)
                behind = self._behind = Behind()
            await optimize_copy(place, self._open)
            await self._replace(place, behind)
        finally:
            await _to_the_end(self._generations.tidy)

    async def _replace(self, place: Path, behind: Behind) -> None:
        """Starts an engine on the copy, brings it up to date and lets it take over."""
        made = await EngineProcess.start(place, lock=self._generations.lock)
        try:
            await made.ask(self._open)
            await behind.catch_up(made)
            async with self._writing, self._starting:
                await behind.replay(made)
                await _to_the_end(lambda: self._generations.switch(place))
                self._engine, made = made, self._engine or made
        finally:
            await made.stop()

    async def optimize(self) -> None:
        """Compacts now, or waits for the compaction that is under way; reads and writes go on."""
        await self._running()
        compaction = self._compacting()
        await asyncio.wait({compaction})
        if compaction.cancelled():
            raise StoreError(f"the collection {self._folder.name} was closed before it was compacted")
        compaction.result()

    async def close(self) -> None:
        """Gives up a compaction, flushes and lets others open the folder."""
        if self._compaction is not None:
            self._compaction.cancel()
            await asyncio.wait({self._compaction})
        async with self._writing:
            await self._stop()


async def _to_the_end(work: Callable[[], T]) -> T:
    """Runs file work in a thread; a cancellation takes effect when it has ended."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise
