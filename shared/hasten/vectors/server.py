"""The store on a Qdrant server (or, for tests, qdrant-client's local mode): many processes may share a collection."""

from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.vectors.checks import check_ids, check_indexes, check_points, check_terms, check_vector, check_width
from hasten.vectors.figures import searching
from hasten.vectors.filters import Dialect, to_filter
from hasten.vectors.records import copied, point_of
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

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient

SLICE = 256
"""Points per request: 256 of 384 dimensions are about 2 MB of JSON."""
COUNTS_PER_TENANT = (1, 19)
"""The first version that counts terms inside a filter; earlier ones skip the parameter and count in all tenants."""


class ServerStore:
    """A VectorStore in one collection of a server. Writes wait until they are applied; `close` closes the client."""

    def __init__(self, client: "AsyncQdrantClient", collection: str) -> None:
        from qdrant_client import models

        self._connection, self._collection, self._models = client, collection, models
        self._dialect = Dialect(classes=models, range=models.Range)
        self._dim: int | None = None
        self._terms = False

    async def open(self, dim: int, indexes: dict[str, IndexKind], *, terms: bool = False) -> list[str]:
        """See VectorStore; several replicas may do it at once. Terms need a server of version 1.19."""
        check_indexes(indexes)
        client = self._connection
        with in_one_sentence("open the collection"):
            if terms:
                self._check_version((await client.info()).version)
            anew = not await client.collection_exists(self._collection)
            if anew:
                await self._create(dim, terms)
            info = await client.get_collection(self._collection)
            self._check(info.config.params.vectors, dim)
            missing = [field for field in indexes if field not in info.payload_schema]
            for field in missing:
                schema = self._index(field, indexes[field])
                await client.create_payload_index(self._collection, field, field_schema=schema, wait=True)
            lacking = TERMS not in (info.config.params.sparse_vectors or {})
            if terms and lacking:
                await self._create_terms()
            if terms and (lacking or anew):
                missing.append(TERMS)
        self._dim, self._terms = dim, terms
        return missing

    def _check_version(self, version: str) -> None:
        try:
            major, minor = map(int, version.split(".")[:2])
        except ValueError:
            major, minor = 0, 0
        if (major, minor) < COUNTS_PER_TENANT:
            wanted = ".".join(map(str, COUNTS_PER_TENANT))
            raise StoreError(
                f"searching by words needs a Qdrant server of version {wanted} or later, which counts words per "
                f"tenant, and this one says {version[:20]}: update it, or switch the search by words off"
            )

    async def _create_terms(self) -> None:
        """Adds the index of terms to an existing collection, unless another replica just did."""
        models = self._models
        config = models.SparseVectorNameConfig(sparse=models.SparseVectorConfig(modifier=models.Modifier.IDF))
        try:
            await self._connection.create_vector_name(self._collection, TERMS, config, wait=True)
        except Exception:
            info = await self._connection.get_collection(self._collection)
            if TERMS not in (info.config.params.sparse_vectors or {}):
                raise

    async def _create(self, dim: int, terms: bool) -> None:
        """Creates it, unless another replica just did."""
        models = self._models
        small = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=QUANTILE, always_ram=True)
        try:
            await self._connection.create_collection(
                self._collection,
                vectors_config=models.VectorParams(size=dim, distance=models.Distance.COSINE),
                sparse_vectors_config=(
                    {TERMS: models.SparseVectorParams(modifier=models.Modifier.IDF)} if terms else None
                ),
                hnsw_config=models.HnswConfigDiff(m=0, payload_m=LINKS),
                quantization_config=models.ScalarQuantization(scalar=small),
                on_disk_payload=True,
            )
        except Exception:
            if not await self._connection.collection_exists(self._collection):
                raise

    def _check(self, vectors: Any, dim: int) -> None:
        if not isinstance(vectors, self._models.VectorParams):
            raise StoreError(f"the collection {self._collection} has named vectors, so it is not one of ours")
        check_width(vectors.size, dim, f"the collection {self._collection}")

    def _index(self, field: str, kind: IndexKind) -> Any:
        models, tenant = self._models, field == TENANT
        match kind:
            case "keyword":
                return models.KeywordIndexParams(
                    type=models.KeywordIndexType.KEYWORD, is_tenant=tenant or None, enable_hnsw=tenant
                )
            case "integer":
                return models.IntegerIndexParams(
                    type=models.IntegerIndexType.INTEGER, lookup=True, range=True, enable_hnsw=False
                )
            case "float":
                return models.FloatIndexParams(type=models.FloatIndexType.FLOAT, enable_hnsw=False)
            case "bool":
                return models.BoolIndexParams(type=models.BoolIndexType.BOOL, enable_hnsw=False)

    @property
    def _opened(self) -> tuple["AsyncQdrantClient", int]:
        """The client and the width of the vectors."""
        if self._dim is None:
            raise StoreError(f"the collection {self._collection} is not open")
        return self._connection, self._dim

    async def upsert(self, points: list[Point]) -> None:
        """Writes in slices; all are checked before the first is written."""
        client, dim = self._opened
        check_points(points, dim, self._terms)
        for start in range(0, len(points), SLICE):
            with in_one_sentence("write"):
                made = [self._point(point) for point in points[start : start + SLICE]]
                await client.upsert(self._collection, made, wait=True)

    def _point(self, point: Point) -> Any:
        vector: dict[str, Any] = {} if point.vector is None else {"": np.asarray(point.vector).tolist()}
        if point.terms is not None:
            vector[TERMS] = self._sparse(point.terms)
        return self._models.PointStruct(id=point.id, vector=vector, payload=point.payload)

    def _sparse(self, terms: Terms) -> Any:
        return self._models.SparseVector(indices=terms.ids.tolist(), values=terms.weights.tolist())

    async def get(self, ids: list[str]) -> list[Point]:
        """See VectorStore."""
        return [point_of(record) for record in await self._records(ids, payloads=True)]

    async def _records(self, ids: list[str], *, payloads: bool) -> list[Any]:
        client, _ = self._opened
        check_ids(ids)
        if not ids:
            return []
        with in_one_sentence("read points"):
            return await client.retrieve(self._collection, ids, with_payload=payloads, with_vectors=False)

    async def search(self, vector: Vector, where: Where, limit: int) -> list[Match]:
        """See VectorStore; exact unless the tenant is given."""
        client, dim = self._opened
        check_vector(vector, dim)
        if limit < 1:
            return []
        rescored = self._models.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING)
        with in_one_sentence("search"), searching.labels(self._collection).time():
            found = await client.query_points(
                self._collection,
                query=np.asarray(vector).tolist(),
                query_filter=to_filter(where, self._dialect),
                search_params=self._models.SearchParams(
                    hnsw_ef=EF, exact=TENANT not in where.equal, quantization=rescored
                ),
                limit=limit,
                with_payload=True,
            )
        return [Match(id=str(hit.id), score=hit.score, payload=copied(hit.payload)) for hit in found.points]

    async def search_terms(self, terms: Terms, where: Where, corpus: Where, limit: int) -> list[Match]:
        """See VectorStore."""
        client, _ = self._opened
        check_terms(terms, self._terms)
        if limit < 1 or not len(terms.ids):
            return []
        matching = to_filter(corpus, self._dialect)
        counted = None if matching is None else self._models.IdfCorpusParams(corpus=matching)
        with in_one_sentence("search"), searching.labels(self._collection).time():
            found = await client.query_points(
                self._collection,
                query=self._sparse(terms),
                using=TERMS,
                query_filter=to_filter(where, self._dialect),
                search_params=self._models.SearchParams(idf=counted),
                limit=limit,
                with_payload=True,
            )
        return [Match(id=str(hit.id), score=hit.score, payload=copied(hit.payload)) for hit in found.points]

    async def scroll(
        self, where: Where, limit: int, fields: list[str] | None = None, *, vectors: bool = False
    ) -> list[Point]:
        """See VectorStore."""
        client, _ = self._opened
        if limit < 1:
            return []
        with in_one_sentence("list points"):
            records, _ = await client.scroll(
                self._collection,
                scroll_filter=to_filter(where, self._dialect),
                limit=limit,
                with_payload=True if fields is None else fields or False,
                with_vectors=vectors,
            )
        return [point_of(record) for record in records]

    async def set_terms(self, terms: dict[str, Terms]) -> None:
        """See VectorStore."""
        client, _ = self._opened
        for one in terms.values():
            check_terms(one, self._terms)
        there = [record.id for record in await self._records(list(terms), payloads=False)]
        made = [self._models.PointVectors(id=id_, vector={TERMS: self._sparse(terms[str(id_)])}) for id_ in there]
        if made:
            with in_one_sentence("write"):
                await client.update_vectors(self._collection, made, wait=True)

    async def set_payload(self, ids: list[str], payload: dict[str, Any]) -> None:
        """See VectorStore."""
        client, _ = self._opened
        there: list[Any] = [record.id for record in await self._records(ids, payloads=False)]
        if there:
            with in_one_sentence("write"):
                await client.set_payload(self._collection, payload=payload, points=there, wait=True)

    async def delete(self, *, ids: list[str] | None = None, where: Where | None = None) -> int:
        """See VectorStore; what others write or delete between the count and the deletion may be missing in it."""
        there = [record.id for record in await self._records(ids or [], payloads=False)]
        gone = len(there)
        if there:
            await self._delete(self._models.PointIdsList(points=there))
        if where is not None:
            gone += await self.count(where)
            matching = to_filter(where, self._dialect) or self._everything()
            await self._delete(self._models.FilterSelector(filter=matching))
        return gone

    def _everything(self) -> Any:
        """A filter that all points pass: an empty one is not accepted everywhere."""
        return self._models.Filter(must_not=[self._models.HasIdCondition(has_id=[])])

    async def _delete(self, selector: Any) -> None:
        client, _ = self._opened
        with in_one_sentence("delete"):
            await client.delete(self._collection, points_selector=selector, wait=True)

    async def count(self, where: Where | None = None) -> int:
        """See VectorStore."""
        client, _ = self._opened
        with in_one_sentence("count"):
            matching = to_filter(where, self._dialect)
            return int((await client.count(self._collection, count_filter=matching, exact=True)).count)

    async def optimize(self) -> None:
        """Does nothing: a server optimises in the background."""

    async def close(self) -> None:
        """Closes the client."""
        self._dim = None
        with in_one_sentence("close"):
            await self._connection.close()
