"""GET /v1/models and /v1/models/{name}: the names a caller may ask for, `auto` first."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.gateway.access import caller_of
from hasten.keys import KeyRing
from hasten.messages.failure import Failed
from hasten.messages.route import MODELS, ModelInfo, ModelList, Models

TIMEOUT_S = 5.0


def entries(models: list[ModelInfo]) -> list[dict[str, Any]]:
    """OpenAI's model objects for `auto`, every model and every alias. When a model was made is not known: 0."""
    names = ["auto", *(name for model in models for name in (model.name, *model.aliases))]
    return [{"id": name, "object": "model", "created": 0, "owned_by": "hasten"} for name in dict.fromkeys(names)]


class Catalogue:
    """Both endpoints."""

    def __init__(self, bus: Bus, keys: KeyRing) -> None:
        self._bus, self._keys = bus, keys

    async def every(self, request: Request) -> Response:
        """The list object."""
        return _json({"object": "list", "data": await self._entries(request)})

    async def one(self, request: Request) -> Response:
        """One model object; raises Failed(model_not_found)."""
        wanted = request.path_params["name"]
        for entry in await self._entries(request):
            if entry["id"] == wanted:
                return _json(entry)
        raise Failed("model_not_found", "there is no model of this name", param="model")

    async def _entries(self, request: Request) -> list[dict[str, Any]]:
        tenant = caller_of(request.headers, self._keys).tenant
        found = await self._bus.request(MODELS, Models(), deadline_ms=now_ms() + TIMEOUT_S * 1000, tenant=tenant)
        if not isinstance(found, ModelList):
            raise Failed.of(found)
        return entries(found.models)


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
