"""GET /v1/collections: the names that a chat may have as `knowledge`, as far as documents were sent to them."""

import msgspec
import nats.errors
from starlette.requests import Request
from starlette.responses import Response

from hasten.bus import Bus
from hasten.gateway.access import caller_of
from hasten.keys import KeyRing
from hasten.messages.change import STREAM
from hasten.messages.failure import Failed
from hasten.messages.retrieve import DOCUMENT


class Collections:
    """The endpoint, in the form of a list of models. Each collection is one subject, so that asking the stream for them
    costs little. Collections that are made of rows alone, and look-ups, are not among them."""

    def __init__(self, bus: Bus, keys: KeyRing) -> None:
        self._bus, self._keys = bus, keys

    async def every(self, request: Request) -> Response:
        """The list object; raises Failed(unavailable) without JetStream."""
        tenant = caller_of(request.headers, self._keys).tenant
        try:
            info = await self._bus.js.stream_info(STREAM, subjects_filter=DOCUMENT.narrowed(tenant=tenant))
        except (nats.errors.Error, TimeoutError) as error:
            raise Failed("unavailable", f"the stream {STREAM} cannot be asked ({type(error).__name__})") from None
        names = sorted(DOCUMENT.parse(subject)["collection"] for subject in info.state.subjects or {})
        data = [{"id": name, "object": "collection"} for name in names]
        return Response(msgspec.json.encode({"object": "list", "data": data}), media_type="application/json")
