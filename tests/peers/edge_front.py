"""A stand-in for a Qdrant server that several processes can share: the part of its REST API that hasten uses, as a mere
transport in front of the embedded engine. `python edge_front.py PORT FOLDER` serves until it is killed.

It plans and searches as the embedded engine does, in one thread; how a real server behaves it does not show.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hasten.vectors.shard import Shard
from hasten.vectors.store import IndexKind, Point, StoreError, Where

SLICE = 256


class EdgeFront:
    """One collection after the other as they are asked for, each a folder; they are opened when first used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, dict[str, Any]] = {}
        self._indexes: dict[str, dict[str, IndexKind]] = {}
        self._shards: dict[str, Shard] = {}
        answers = {
            ("GET", "exists"): self._exists,
            ("PUT", ""): self._create,
            ("GET", ""): self._info,
            ("PUT", "index"): self._index,
            ("PUT", "points"): self._upsert,
            ("POST", "points"): self._retrieve,
            ("POST", "points/query"): self._query,
            ("POST", "points/scroll"): self._scroll,
            ("POST", "points/payload"): self._set_payload,
            ("POST", "points/delete"): self._delete,
            ("POST", "points/count"): self._count,
        }
        self.app = Starlette(routes=[self._route(*place, answer) for place, answer in answers.items()])

    def _route(self, method: str, path: str, answer: Any) -> Route:
        async def endpoint(request: Request) -> Response:
            body = await request.body()
            try:
                result = answer(request.path_params["name"], await request.json() if body else {})
            except KeyError as error:
                return JSONResponse({"status": {"error": f"not found: {error}"}, "time": 0.0}, 404)
            except (ValueError, StoreError) as error:
                return JSONResponse({"status": {"error": str(error)}, "time": 0.0}, 400)
            return JSONResponse({"result": result, "status": "ok", "time": 0.0})

        return Route(f"/collections/{{name}}/{path}".rstrip("/"), endpoint, methods=[method])

    def _shard(self, name: str) -> Shard:
        if name not in self._shards:
            shard = Shard(self._folder / name)
            shard.open(self._made[name]["vectors"]["size"], self._indexes[name])
            self._shards[name] = shard
        return self._shards[name]

    def _exists(self, name: str, _: Any) -> Any:
        return {"exists": name in self._made}

    def _create(self, name: str, body: Any) -> Any:
        if name in self._made:
            raise ValueError(f"the collection {name} already exists")
        self._made[name], self._indexes[name] = body, {}
        return True

    def _info(self, name: str, _: Any) -> Any:
        schema = {field: {"data_type": kind, "points": 0} for field, kind in self._indexes[name].items()}
        graph = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000}
        optimizer = {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1, "default_segment_number": 0}
        return {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": 1,
            "config": {
                "params": {"vectors": self._made[name]["vectors"]},
                "hnsw_config": graph,
                "optimizer_config": {**optimizer, "flush_interval_sec": 5},
            },
            "payload_schema": schema,
        }

    def _index(self, name: str, body: Any) -> Any:
        kind = body["field_schema"]
        if name not in self._shards:
            self._indexes[name][body["field_name"]] = kind["type"] if isinstance(kind, dict) else kind
        return _done()

    def _upsert(self, name: str, body: Any) -> Any:
        self._shard(name).upsert([_point(point) for point in body["points"]])
        return _done()

    def _retrieve(self, name: str, body: Any) -> Any:
        found = self._shard(name).get(body["ids"], vectors=bool(body.get("with_vector")))
        return [_record(point) for point in found]

    def _query(self, name: str, body: Any) -> Any:
        query = body["query"]
        vector = np.array(query["nearest"] if isinstance(query, dict) else query, dtype="<f4")
        found = self._shard(name).search(vector, _where(body.get("filter")), body["limit"])
        return {"points": [{"id": one.id, "version": 0, "score": one.score, "payload": one.payload} for one in found]}

    def _scroll(self, name: str, body: Any) -> Any:
        where, vectors = _where(body.get("filter")), bool(body.get("with_vector"))
        found = self._shard(name).scroll(where, body["limit"], _fields(body.get("with_payload")), vectors=vectors)
        return {"points": [_record(point) for point in found], "next_page_offset": None}

    def _set_payload(self, name: str, body: Any) -> Any:
        self._shard(name).set_payload(body["points"], body["payload"])
        return _done()

    def _delete(self, name: str, body: Any) -> Any:
        shard = self._shard(name)
        if "points" in body:
            shard.delete(body["points"])
        else:
            where = _where(body["filter"])
            while found := shard.scroll(where, SLICE, [], vectors=False):
                shard.delete([point.id for point in found])
        return _done()

    def _count(self, name: str, body: Any) -> Any:
        return {"count": self._shard(name).count(_where(body.get("filter")))}


def _point(given: Any) -> Point:
    named = given["vector"] if isinstance(given["vector"], dict) else {"": given["vector"]}
    vector = np.array(named[""], dtype="<f4") if named.get("") else None
    return Point(id=given["id"], vector=vector, payload=given.get("payload") or {})


def _record(point: Point) -> Any:
    vector = None if point.vector is None else [float(one) for one in point.vector]
    return {"id": point.id, "payload": point.payload, **({"vector": vector} if vector else {})}


def _fields(given: Any) -> list[str] | None:
    """Which fields of the payload are asked for; None for all."""
    if isinstance(given, dict):
        given = given["include"]
    return given if isinstance(given, list) else None if given else []


def _where(given: Any) -> Where:
    """The filter as hasten's own; one that matches everything is sent as the absence of no ids."""
    equal: dict[str, Any] = {}
    above: dict[str, float] = {}
    below: dict[str, float] = {}
    for condition in (given or {}).get("must") or []:
        field, match, bounds = condition["key"], condition.get("match"), condition.get("range")
        if match is not None:
            equal[field] = match["value"] if "value" in match else match["any"]
        elif bounds.get("gte") is not None and bounds["gte"] == bounds.get("lte"):
            equal[field] = bounds["gte"]
        else:
            above |= {field: bounds["gt"]} if bounds.get("gt") is not None else {}
            below |= {field: bounds["lt"]} if bounds.get("lt") is not None else {}
    refused = [one for one in (given or {}).get("must_not") or [] if "key" in one]
    unequal = {one["key"]: one["match"].get("value", one["match"].get("any")) for one in refused}
    return Where(equal=equal, unequal=unequal, above=above, below=below)


def _done() -> dict[str, Any]:
    return {"operation_id": 1, "status": "completed"}


def main() -> None:
    front = EdgeFront(Path(sys.argv[2]))
    uvicorn.run(front.app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", lifespan="off")


if __name__ == "__main__":
    main()
