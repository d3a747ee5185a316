"""A stand-in for a Qdrant server: the part of its REST API that hasten uses, in front of qdrant-client's local mode.

It shows what the adapter sends and how it reads what comes back, and lets several processes share a collection. How a
real server plans a search, and how fast it is, it does not show.
"""

import asyncio
import contextlib
import socket
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import uvicorn
from qdrant_client import AsyncQdrantClient, models
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Answer = Callable[[str, Any], Awaitable[Any]]


class QdrantFront:
    """The collections of one server. `indexes` is what an operator would see of the payload schema."""

    def __init__(self) -> None:
        warnings.filterwarnings("ignore", "Local mode performs exact|Payload indexes have no effect", UserWarning)
        self._local = AsyncQdrantClient(":memory:")
        self.indexes: dict[str, dict[str, Any]] = {}
        self.graphs: dict[str, Any] = {}
        self.quantization: dict[str, Any] = {}
        self.searches: list[Any] = []
        self.unconfirmed: list[str] = []
        self.version = "1.19.0"
        self.strict = False
        routes: list[tuple[str, str, Answer]] = [
            ("GET", "exists", self._exists),
            ("PUT", "vectors/{vector}", self._create_vector),
            ("PUT", "points/vectors", self._update_vectors),
            ("PUT", "", self._create),
            ("GET", "", self._info),
            ("PUT", "index", self._index),
            ("PUT", "points", self._upsert),
            ("POST", "points", self._retrieve),
            ("POST", "points/query", self._query),
            ("POST", "points/scroll", self._scroll),
            ("POST", "points/payload", self._set_payload),
            ("POST", "points/delete", self._delete),
            ("POST", "points/count", self._count),
        ]
        about = Route("/", self._about, methods=["GET"])
        self.app = Starlette(routes=[about, *(self._route(method, path, answer) for method, path, answer in routes)])

    def _route(self, method: str, path: str, answer: Answer) -> Route:
        async def endpoint(request: Request) -> Response:
            body = await request.body()
            changes = method == "PUT" or path in ("points/payload", "points/delete")
            if changes and path and request.query_params.get("wait") != "true":
                self.unconfirmed.append(path)
            try:
                given = await request.json() if body else {}
                if "vector" in request.path_params:
                    given["vector_name"] = request.path_params["vector"]
                self._check_filter(request.path_params["name"], given)
                result = await answer(request.path_params["name"], given)
            except ValueError as error:
                status = 409 if "already exists" in str(error) else 404 if "not found" in str(error) else 400
                return JSONResponse({"status": {"error": str(error)}, "time": 0.0}, status)
            return JSONResponse({"result": result, "status": "ok", "time": 0.0})

        return Route(f"/collections/{{name}}/{path}".rstrip("/"), endpoint, methods=[method])

    async def _exists(self, name: str, _: Any) -> Any:
        return {"exists": await self._local.collection_exists(name)}

    def _check_filter(self, name: str, body: Any) -> None:
        """In strict mode, refuses a filter by a field that has no index."""
        if not self.strict:
            return
        for field in _fields([body.get("filter"), (body.get("params") or {}).get("idf")]):
            if field not in self.indexes[name]:
                raise ValueError(f"index required but not found for {field}")

    async def _about(self, _: Request) -> Response:
        return JSONResponse({"title": "qdrant - vector search engine", "version": self.version})

    async def _create_vector(self, name: str, body: Any) -> Any:
        config = models.SparseVectorNameConfig(sparse=body["sparse"])
        await self._local.create_vector_name(name, body["vector_name"], config)
        return _done()

    async def _update_vectors(self, name: str, body: Any) -> Any:
        await self._local.update_vectors(name, [models.PointVectors(**point) for point in body["points"]])
        return _done()

    async def _create(self, name: str, body: Any) -> Any:
        sparse = {key: models.SparseVectorParams(**given) for key, given in (body.get("sparse_vectors") or {}).items()}
        await self._local.create_collection(
            name, vectors_config=models.VectorParams(**body["vectors"]), sparse_vectors_config=sparse or None
        )
        self.indexes[name], self.graphs[name] = {}, body.get("hnsw_config")
        self.quantization[name] = body.get("quantization_config")
        return True

    async def _info(self, name: str, _: Any) -> Any:
        info = (await self._local.get_collection(name)).model_dump(mode="json")
        schema = {field: {"data_type": kind["type"], "points": 0} for field, kind in self.indexes[name].items()}
        return info | {"payload_schema": schema}

    async def _index(self, name: str, body: Any) -> Any:
        self.indexes[name][body["field_name"]] = body["field_schema"]
        return _done()

    async def _upsert(self, name: str, body: Any) -> Any:
        await self._local.upsert(name, [models.PointStruct(**point) for point in body["points"]])
        return _done()

    async def _retrieve(self, name: str, body: Any) -> Any:
        asked = models.PointRequest(**body)
        found = await self._local.retrieve(
            name, asked.ids, with_payload=bool(asked.with_payload), with_vectors=bool(asked.with_vector)
        )
        return [record.model_dump(mode="json") for record in found]

    async def _query(self, name: str, body: Any) -> Any:
        asked = models.QueryRequest(**body)
        self.searches.append(body.get("params"))
        found = await self._local.query_points(
            name,
            query=_query_of(asked),
            using=asked.using,
            query_filter=asked.filter,
            search_params=asked.params,
            limit=asked.limit or 10,
            with_payload=True,
        )
        return found.model_dump(mode="json")

    async def _scroll(self, name: str, body: Any) -> Any:
        asked = models.ScrollRequest(**body)
        records, following = await self._local.scroll(
            name,
            scroll_filter=asked.filter,
            limit=asked.limit or 10,
            with_payload=asked.with_payload if asked.with_payload is not None else True,
            with_vectors=bool(asked.with_vector),
        )
        return {"points": [record.model_dump(mode="json") for record in records], "next_page_offset": following}

    async def _set_payload(self, name: str, body: Any) -> Any:
        await self._local.set_payload(name, payload=body["payload"], points=body["points"])
        return _done()

    async def _delete(self, name: str, body: Any) -> Any:
        selector: Any = models.PointIdsList(**body) if "points" in body else models.FilterSelector(**body)
        await self._local.delete(name, selector)
        return _done()

    async def _count(self, name: str, body: Any) -> Any:
        asked = models.CountRequest(**body)
        return (await self._local.count(name, count_filter=asked.filter)).model_dump(mode="json")


def _query_of(asked: models.QueryRequest) -> Any:
    return asked.query.nearest if isinstance(asked.query, models.NearestQuery) else asked.query


def _fields(part: Any) -> set[str]:
    """The payload fields that a part of a body names as keys of conditions."""
    if isinstance(part, list):
        return set().union(*(_fields(one) for one in part))
    if not isinstance(part, dict):
        return set()
    own = {part["key"]} if isinstance(part.get("key"), str) else set()
    return own.union(*(_fields(one) for one in part.values()))


def _done() -> dict[str, Any]:
    return {"operation_id": 1, "status": "completed"}


@contextlib.asynccontextmanager
async def listening(front: QdrantFront) -> AsyncIterator[str]:
    """The address of a front that listens on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(front.app, log_level="critical", lifespan="off"))
        task = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task
