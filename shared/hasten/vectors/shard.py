"""Qdrant's engine on one folder, synchronously: its calls hold the GIL, so it runs in a process of its own."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from hasten.vectors.checks import check_width
from hasten.vectors.filters import Dialect, to_filter
from hasten.vectors.generations import copy
from hasten.vectors.store import (
    EF,
    LINKS,
    OVERSAMPLING,
    QUANTILE,
    TENANT,
    IndexKind,
    Match,
    Point,
    StoreError,
    Vector,
    Where,
    in_one_sentence,
)

FULL_SCAN_KB = 10_000
"""A tenant with fewer vectors is searched without a graph; so are those that were written since the last compaction."""
SEGMENTS = 2
"""One with the graph of all, and one for what is written: a search in one graph takes 0.28 ms of the processor, in two
0.55 (45,000 points). Adding to the one graph takes a third longer than making another."""
RESERVE = 96 * 1024 * 1024
"""Room on the disk below which nothing is written: the engine maps files with holes, and a hole that cannot be filled
kills it, then and at every start."""
DELETE_RESERVE = RESERVE // 4


class Shard:
    """One open collection in the folder `place`, which nobody else may have open."""

    def __init__(self, place: Path) -> None:
        import qdrant_edge

        self._place = place
        self._engine: ModuleType = qdrant_edge
        self._dialect = Dialect(classes=self._engine, range=self._engine.RangeFloat, boolean=np.bool_)
        self._shard: Any = None

    def copy_from(self, source: Path) -> None:
        """Copies another generation to this place, where there is none."""
        with in_one_sentence("copy the collection"):
            copy(source, self._place)

    def open(self, dim: int, indexes: dict[str, IndexKind]) -> tuple[list[str], int]:
        """Creates or loads the collection and makes the payload indexes that are missing; returns those, and about how
        many points are in no graph."""
        with in_one_sentence("open the collection"):
            if not self._place.exists():
                self._create(dim)
        with _readable(self._place):
            config = json.loads((self._place / "edge_config.json").read_text())
            check_width(config["vectors"][""]["size"], dim, "the collection")
            self._shard = self._engine.EdgeShard.load(str(self._place), self._config(dim))
            info = self._shard.info()
        missing = [field for field in indexes if field not in info.payload_schema]
        for field in missing:
            self._update("create_field_index", field, self._index(field, indexes[field]))
        return missing, max(0, info.points_count - info.indexed_vectors_count)

    def _create(self, dim: int) -> None:
        """Builds it aside and renames it, so that a crash leaves no half of a collection."""
        aside = self._place.with_name(f"{self._place.name}.new")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        self._engine.EdgeShard.create(str(aside), self._config(dim)).close()
        aside.rename(self._place)

    def _config(self, dim: int) -> Any:
        """How points are kept: answers on disk, graphs and vectors of one byte per number in memory, and the whole
        vectors in the page cache, for scores and for what has no graph yet."""
        engine = self._engine
        return engine.EdgeConfig(
            vectors=engine.EdgeVectorParams(size=dim, distance=engine.Distance.Cosine),
            quantization_config=engine.ScalarQuantizationConfig(
                type=engine.ScalarType.Int8, quantile=QUANTILE, memory=engine.Memory.Pinned
            ),
            hnsw_config=engine.HnswIndexConfig(
                m=0, payload_m=LINKS, ef_construct=100, full_scan_threshold=FULL_SCAN_KB, max_indexing_threads=1
            ),
            optimizers=engine.EdgeOptimizersConfig(default_segment_number=SEGMENTS),
            wal_enabled=True,
        )

    def _index(self, field: str, kind: IndexKind) -> Any:
        """Only the tenant gets graphs of its own: more of them double the time of `optimize`."""
        match kind:
            case "keyword":
                return self._engine.KeywordIndexParams(is_tenant=field == TENANT, enable_hnsw=field == TENANT)
            case "integer":
                return self._engine.IntegerIndexParams(lookup=True, range=True, enable_hnsw=False)
            case "float":
                return self._engine.FloatIndexParams(enable_hnsw=False)
            case "bool":
                return self._engine.BoolIndexParams(enable_hnsw=False)

    def upsert(self, points: list[Point]) -> None:
        """Inserts or replaces by id."""
        if points:
            self._update("upsert_points", [self._point(point) for point in points])

    def _point(self, point: Point) -> Any:
        vector: Any = {} if point.vector is None else point.vector
        return self._engine.Point(point.id, vector, point.payload)

    def get(self, ids: list[str], *, vectors: bool = False) -> list[Point]:
        """The points that exist among these ids."""
        with in_one_sentence("read points"):
            return [_point_of(record) for record in self._shard.retrieve(ids, True, vectors)]

    def search(self, vector: Vector, where: Where, limit: int) -> list[Match]:
        """The nearest points that match, best first; exact unless the tenant is given."""
        engine = self._engine
        rescored = engine.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING)
        params = engine.SearchParams(exact=TENANT not in where.equal, hnsw_ef=EF, quantization=rescored)
        with in_one_sentence("search"):
            request = engine.SearchRequest(
                engine.Query.Nearest(vector),
                limit=limit,
                filter=to_filter(where, self._dialect),
                params=params,
                with_payload=True,
            )
            found = self._shard.search(request)
        return [Match(id=str(hit.id), score=float(hit.score), payload=hit.payload or {}) for hit in found]

    def scroll(self, where: Where, limit: int, fields: list[str] | None, *, vectors: bool) -> list[Point]:
        """Up to `limit` points that match, with these fields of their payloads (None: all)."""
        payload: Any = True if fields is None else fields or False
        with in_one_sentence("list points"):
            request = self._engine.ScrollRequest(
                limit=limit, filter=to_filter(where, self._dialect), with_payload=payload, with_vector=vectors
            )
            records, _ = self._shard.scroll(request)
        return [_point_of(record) for record in records]

    def set_payload(self, ids: list[str], payload: dict[str, Any]) -> None:
        """Merges fields into the payloads of those points that exist."""
        if there := self._existing(ids):
            self._update("set_payload", there, payload)

    def delete(self, ids: list[str]) -> int:
        """Deletes by id and returns how many there were."""
        if there := self._existing(ids):
            self._update("delete_points", there)
        return len(there)

    def _existing(self, ids: list[str]) -> list[str]:
        with in_one_sentence("read points"):
            return [str(record.id) for record in self._shard.retrieve(ids, False, False)]

    def count(self, where: Where | None) -> int:
        """How many points match, exactly."""
        with in_one_sentence("count"):
            return int(self._shard.count(self._engine.CountRequest(exact=True, filter=to_filter(where, self._dialect))))

    def optimize(self) -> None:
        """Builds the tenants' graphs, reclaims the room of what was deleted, and flushes: only then is it smaller."""
        with in_one_sentence("optimise"):
            self._shard.optimize()
            self._shard.flush()

    def flush(self) -> None:
        """Writes everything to the segments, so that the log to replay at the next start is short."""
        with in_one_sentence("flush"):
            self._shard.flush()

    def close(self) -> None:
        """Flushes and closes; closing twice, or what never opened, does nothing."""
        shard, self._shard = self._shard, None
        if shard is not None:
            shard.flush()
            shard.close()

    def _update(self, operation: str, *arguments: Any) -> None:
        self._check_room(DELETE_RESERVE if operation == "delete_points" else RESERVE)
        with in_one_sentence("write"):
            self._shard.update(getattr(self._engine.UpdateOperation, operation)(*arguments))

    def _check_room(self, reserve: int) -> None:
        disk = os.statvfs(self._place)
        if disk.f_bavail * disk.f_frsize < reserve:
            raise StoreError(f"the disk is nearly full: nothing is stored until {reserve >> 20} MB are free")


def _point_of(record: Any) -> Point:
    vector = np.array(record.vector, dtype=np.float32) if record.vector else None
    return Point(id=str(record.id), vector=vector, payload=record.payload or {})


@contextlib.contextmanager
def _readable(place: Path) -> Iterator[None]:
    """Says what to do about a collection that cannot be read; the engine's panics are no Exceptions."""
    try:
        yield
    except (StoreError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise StoreError(
            f"the collection in {place} is damaged ({type(error).__name__}): restore {place.parent} from a copy, or "
            "move it away to start with an empty one"
        ) from None
