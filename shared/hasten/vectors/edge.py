"""The embedded store: Qdrant's engine on a folder, in a process of its own that this one starts and ends."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np

from hasten.telemetry import logger
from hasten.vectors import wire
from hasten.vectors.checks import check_ids, check_indexes, check_points, check_terms, check_vector
from hasten.vectors.compaction import NICE, SLICE, Behind, copier
from hasten.vectors.figures import loose, searching
from hasten.vectors.process import EngineProcess, encoded, to_the_end
from hasten.vectors.store import IndexKind, Match, Point, StoreError, Terms, Vector, Where
from hasten.vectors.supervisor import Supervisor

COMPACT_AFTER = 10_000
"""Points that were written since the last compaction: each search compares with all of them, which takes 0.6 ms."""
HOLES = 0.2
"""Share of deleted points, and as many as COMPACT_AFTER, from which a compaction is worth its while."""

log = logger("vectors")


class EdgeStore:
    """A VectorStore in a folder that only one process may have open; nothing acknowledged is lost by a kill -9.

    A compaction runs beside it, in a process of low priority on a copy, and takes over with what was written
    meanwhile: reads and writes go on. So they do when the engine dies, as soon as the next one has started.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._supervisor = Supervisor(folder)
        self._writing = asyncio.Lock()
        self._behind: Behind | None = None
        self._loose = 0
        self._written = set[str]()
        self._deleted, self._look_at = 0, COMPACT_AFTER
        self._compaction: asyncio.Task[None] | None = None

    async def open(self, dim: int, indexes: dict[str, IndexKind], *, terms: bool = False) -> list[str]:
        """Takes the folder and starts the engine; see VectorStore."""
        check_indexes(indexes)
        opened = await self._supervisor.open(wire.Open(dim=dim, indexes=indexes, terms=terms))
        self._loose = opened.loose
        return opened.made

    async def _ask(self, request: wire.AnyRequest, kind: Any = Any) -> Any:
        return await (await self._supervisor.running()).ask(request, kind)

    async def _write(self, request: wire.AnyWrite, ids: list[str], kind: Any = Any) -> Any:
        """Sends a write of these points, and notes them for a compaction that is under way."""
        frame = encoded(request)
        async with self._writing:
            engine = await self._supervisor.running()
            if self._behind is not None:
                self._behind.add(ids)
            return await engine.ask_encoded(frame, kind)

    async def upsert(self, points: list[Point]) -> None:
        """Writes in slices; all are checked before the first is written."""
        opened = self._supervisor.opened
        check_points(points, opened.dim, opened.terms)
        for start in range(0, len(points), SLICE):
            rows = [wire.row_of(point) for point in points[start : start + SLICE]]
            ids = [row.id for row in rows]
            await self._write(wire.Upsert(rows=rows), ids)
            self._written.update(ids)
        await self._compact_if_due()

    async def get(self, ids: list[str]) -> list[Point]:
        """See VectorStore."""
        check_ids(ids)
        return [wire.point_of(row) for row in await self._ask(wire.Get(ids=ids), list[wire.Row])]

    async def search(self, vector: Vector, where: Where, limit: int) -> list[Match]:
        """See VectorStore."""
        check_vector(vector, self._supervisor.opened.dim)
        if limit < 1:
            return []
        request = wire.Search(vector=np.asarray(vector, dtype="<f4").tobytes(), where=where, limit=limit)
        with searching.labels(self._folder.name).time():
            found: list[Match] = await self._ask(request, list[Match])
        return found

    async def search_terms(self, terms: Terms, where: Where, corpus: Where, limit: int) -> list[Match]:
        """See VectorStore."""
        check_terms(terms, self._supervisor.opened.terms)
        if limit < 1 or not len(terms.ids):
            return []
        request = wire.SearchTerms(terms=wire.sparse_of(terms), where=where, corpus=corpus, limit=limit)
        with searching.labels(self._folder.name).time():
            found: list[Match] = await self._ask(request, list[Match])
        return found

    async def scroll(
        self, where: Where, limit: int, fields: list[str] | None = None, *, vectors: bool = False
    ) -> list[Point]:
        """See VectorStore."""
        if limit < 1:
            return []
        request = wire.Scroll(where=where, limit=limit, fields=fields, vectors=vectors)
        return [wire.point_of(row) for row in await self._ask(request, list[wire.Row])]

    async def set_terms(self, terms: dict[str, Terms]) -> None:
        """See VectorStore; in slices."""
        check_ids(terms)
        for one in terms.values():
            check_terms(one, self._supervisor.opened.terms)
        ids = list(terms)
        for start in range(0, len(ids), SLICE):
            part = ids[start : start + SLICE]
            await self._write(wire.SetTerms(terms={id_: wire.sparse_of(terms[id_]) for id_ in part}), part)
            self._written.update(part)
        await self._compact_if_due()

    async def set_payload(self, ids: list[str], payload: dict[str, Any]) -> None:
        """Writes in slices: the engine moves a point that is in a graph to where new ones are, at 50 µs each."""
        check_ids(ids)
        for start in range(0, len(ids), SLICE):
            part = ids[start : start + SLICE]
            await self._write(wire.SetPayload(ids=part, payload=payload), part)
            self._written.update(part)
        await self._compact_if_due()

    async def delete(self, *, ids: list[str] | None = None, where: Where | None = None) -> int:
        """Deletes in slices; a filter is evaluated anew for each, so that nothing written meanwhile is missed."""
        ids = ids or []
        check_ids(ids)
        gone = 0
        for start in range(0, len(ids), SLICE):
            gone += await self._delete(ids[start : start + SLICE])
        while where is not None and (found := await self._matching(where)):
            gone += await self._delete(found)
        await self._compact_if_due()
        return gone

    async def _delete(self, ids: list[str]) -> int:
        gone = int(await self._write(wire.Delete(ids=ids), ids, int))
        self._deleted += gone
        return gone

    async def _matching(self, where: Where) -> list[str]:
        request = wire.Scroll(where=where, limit=SLICE, fields=[])
        return [row.id for row in await self._ask(request, list[wire.Row])]

    async def count(self, where: Where | None = None) -> int:
        """See VectorStore."""
        return int(await self._ask(wire.Count(where=where), int))

    async def _compact_if_due(self) -> None:
        loose.labels(self._folder.name).set(self._loose + len(self._written))
        if self._compaction is None and (self._due or await self._holey()):
            self._compacting()

    @property
    def _due(self) -> bool:
        return self._loose + len(self._written) >= COMPACT_AFTER

    async def _holey(self) -> bool:
        """Whether much was deleted; it counts the points seldom, because that takes 0.1 ms for every 1,000."""
        if self._deleted < self._look_at:
            return False
        self._look_at = self._deleted + COMPACT_AFTER
        return self._deleted >= HOLES * await self.count()

    def _compacting(self) -> "asyncio.Task[None]":
        """The compaction that is under way, or a new one."""
        if self._compaction is None:
            self._compaction = asyncio.get_running_loop().create_task(self._compact())
            self._compaction.add_done_callback(self._compacted)
        return self._compaction

    def _compacted(self, compaction: "asyncio.Task[None]") -> None:
        self._compaction = self._behind = None
        loose.labels(self._folder.name).set(self._loose + len(self._written))
        if compaction.cancelled():
            return
        if (error := compaction.exception()) is not None:
            log.warning("the collection %s was not compacted: %s", self._folder.name, error)
            self._written = set()
        elif self._due:
            self._compacting()

    async def _compact(self) -> None:
        """Counts anew; when it fails, it is tried again after as many writes as before."""
        behind, generations = Behind(), self._supervisor.generations
        try:
            place = await to_the_end(generations.next)
            async with copier(place) as engine:
                await self._copied(engine, behind)
                await engine.ask(self._supervisor.opened)
                await engine.ask(wire.Optimize())
            await self._replace(place, behind)
        finally:
            self._written, self._loose = behind.written, 0
            self._deleted, self._look_at = 0, COMPACT_AFTER
            await to_the_end(generations.tidy)

    async def _copied(self, copying: EngineProcess, behind: Behind) -> None:
        """Lets it copy the current generation, and notes from then on in `behind` what the copy lacks.

        Another process does it because in this one every file would wait for the loop, and the writers for all of them.
        Our engine answers once before: a write whose caller gave up waiting may still be under way.
        """
        async with self._writing:
            engine = await self._supervisor.running()
            async with self._supervisor.lock:
                await engine.ask(wire.Get(ids=[]))
                await copying.ask(wire.Copy(source=str(self._supervisor.generations.current), nice=NICE))
                self._behind = behind

    async def _replace(self, place: Path, behind: Behind) -> None:
        """Starts an engine on the copy, brings it up to date in turns with the writers, and lets it take over."""
        last, _ = await self._supervisor.started(place)
        try:
            while self._behind is not None:
                async with self._writing:
                    await behind.shrink(await self._supervisor.running(), last)
                    if not behind:
                        last = await self._switched(place, last)
        finally:
            await last.stop(flush=False)

    async def _switched(self, place: Path, made: EngineProcess) -> EngineProcess:
        """Makes the copy the current generation and returns the engine of the one before."""
        supervisor = self._supervisor
        async with supervisor.lock:
            await to_the_end(lambda: supervisor.generations.switch(place))
            last, supervisor.engine, self._behind = supervisor.engine, made, None
        return last or made

    async def optimize(self) -> None:
        """Compacts now, or waits for the compaction that is under way; reads and writes go on."""
        await self._supervisor.running()
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
        async with self._writing, self._supervisor.lock:
            await self._supervisor.stop()
