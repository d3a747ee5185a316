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
    TERMS,
    IndexKind,
    Match,
    Point,
    StoreError,
    Terms,
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

    def open(self, dim: int, indexes: dict[str, IndexKind], *, terms: bool = False) -> tuple[list[str], int]:
        """Creates or loads the collection and makes the indexes that are missing; returns those, and about how many
        points are in no graph."""
        anew = not self._place.exists()
        with in_one_sentence("open the collection"):
            if anew:
                self._create(dim, terms)
        with _readable(self._place):
            config = json.loads((self._place / "edge_config.json").read_text())
            check_width(config["vectors"][""]["size"], dim, "the collection")
            has_terms = TERMS in (config.get("sparse_vectors") or {})
            self._shard = self._engine.EdgeShard.load(str(self._place), self._config(dim, has_terms))
            info = self._shard.info()
        missing = [field for field in indexes if field not in info.payload_schema]
        for field in missing:
            self._update("create_field_index", field, self._index(field, indexes[field]))
        if terms and not has_terms:
            self._update("create_sparse_vector", TERMS, self._engine.Modifier.Idf)
            missing.append(TERMS)
        elif terms and anew:
            missing.append(TERMS)
        indexed = info.indexed_vectors_count - (self._with_terms() if has_terms else 0)
        return missing, max(0, info.points_count - indexed)

    def _with_terms(self) -> int:
        """How many points have terms: all of them count as indexed."""
        engine = self._engine
        has_terms = engine.Filter(must=[engine.HasVectorCondition(TERMS)])
        with in_one_sentence("count"):
            return int(self._shard.count(engine.CountRequest(exact=True, filter=has_terms)))

    def _create(self, dim: int, terms: bool) -> None:
        """Builds it aside and renames it, so that a crash leaves no half of a collection."""
        aside = self._place.with_name(f"{self._place.name}.new")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        self._engine.EdgeShard.create(str(aside), self._config(dim, terms)).close()
        aside.rename(self._place)

    def _config(self, dim: int, terms: bool) -> Any:
        """How points are kept: answers on disk, graphs and vectors of one byte per number in memory, and the whole
        vectors in the page cache, for scores and for what has no graph yet."""
        engine = self._engine
        sparse = {TERMS: engine.EdgeSparseVectorParams(modifier=engine.Modifier.Idf)} if terms else None
        return engine.EdgeConfig(
            vectors=engine.EdgeVectorParams(size=dim, distance=engine.Distance.Cosine),
            sparse_vectors=sparse,
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
        vector: dict[str, Any] = {} if point.vector is None else {"": point.vector}
        if point.terms is not None:
            vector[TERMS] = self._sparse(point.terms)
        return self._engine.Point(point.id, vector, point.payload)

    def _sparse(self, terms: Terms) -> Any:
        return self._engine.SparseVector(terms.ids.tolist(), terms.weights.tolist())

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

    def search_terms(self, terms: Terms, where: Where, corpus: Where, limit: int) -> list[Match]:
        """The points that match and share terms, best first; what a term tells is counted in `corpus` alone."""
        engine = self._engine
        counted = engine.IdfParams(corpus=to_filter(corpus, self._dialect))
        with in_one_sentence("search"):
            request = engine.SearchRequest(
                engine.Query.Nearest(self._sparse(terms), using=TERMS),
                limit=limit,
                filter=to_filter(where, self._dialect),
                params=engine.SearchParams(idf=counted),
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

    def set_terms(self, terms: dict[str, Terms]) -> None:
        """Replaces the terms of those points that exist."""
        engine = self._engine
        there = self._existing(list(terms))
        made = [engine.PointVectors(id_, {TERMS: self._sparse(terms[id_])}) for id_ in there]
        if made:
            self._update("update_vectors", made)

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
    named = record.vector if isinstance(record.vector, dict) else {"": record.vector}
    dense, sparse = named.get(""), named.get(TERMS)
    return Point(
        id=str(record.id),
        vector=np.array(dense, dtype=np.float32) if dense else None,
        terms=None if sparse is None else _terms_of(sparse),
        payload=record.payload or {},
    )


def _terms_of(sparse: Any) -> Terms:
    return Terms(np.array(sparse.indices, dtype=np.uint32), np.array(sparse.values, dtype=np.float32))


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
