"""POST /v1/stream and GET /v1/stream/{request_id}: an answer in our own events over SSE, begun or gone on with."""

import asyncio
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hasten.gateway.access import caller_of
from hasten.gateway.answer import Answer, Numbered
from hasten.gateway.body import Gone, read_object
from hasten.gateway.chat import REQUEST_ID
from hasten.gateway.domain import request_id_of
from hasten.gateway.mark import Mark, parsed
from hasten.gateway.native import NOT_THERE, Native
from hasten.gateway.settings import Settings
from hasten.gateway.sse import HEADERS, PING
from hasten.keys import KeyRing
from hasten.messages.chat import Done
from hasten.messages.failure import Failed, Failure
from hasten.topics import BadName, checked, random_id

FIRST_S = 1.0
"""How long the headers wait for the first event, so that a refusal has a status of its own."""


def frame(one: Numbered) -> bytes:
    """One event: its id, its type, and itself as on the bus."""
    data = msgspec.json.encode(one.event)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (one.id.encode(), kind_of(one.event).encode(), data)


def kind_of(event: Any) -> str:
    """The `type` of an event on the wire."""
    return str(type(event).__struct_config__.tag)


class EventStream:
    """The endpoints. A connection that is lost leaves the generation to the orchestrator's grace time; a reader who
    wants no more says so with DELETE."""

    def __init__(self, native: Native, settings: Settings, keys: KeyRing) -> None:
        self._native, self._settings, self._keys = native, settings, keys
        self.routes = [
            Route("/v1/stream", _Endpoint(self._post), methods=["POST"]),
            Route("/v1/stream/{request_id}", _Endpoint(self._get), methods=["GET"]),
            Route("/v1/stream/{request_id}", self._delete, methods=["DELETE"]),
        ]

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        caller = caller_of(headers, self._keys)
        last = headers.get("last-event-id")
        mark = None if last is None else parsed(last)
        if mark is None:
            scope[REQUEST_ID] = request_id = request_id_of(headers) or random_id()
        if mark is not None and headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
            plain: dict[str, Any] = {}
        else:
            limit, timeout_s = self._settings.max_body_bytes, self._settings.read_timeout_s
            try:
                plain = await read_object(headers, receive, limit=limit, timeout_s=timeout_s)
            except Gone:
                return
        if mark is not None:
            await self._go_on(mark, str(plain.get("user") or ""), scope, receive, send)
            return
        answer = await self._native.ask(plain, headers, caller, request_id, scope)
        await self._run(request_id, [], answer, receive, send)

    async def _get(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        caller_of(request.headers, self._keys)
        try:
            request_id = checked("request id", scope["path_params"]["request_id"])
        except BadName:
            raise Failed("not_found", NOT_THERE) from None
        last = request.headers.get("last-event-id")
        mark = Mark(request_id=request_id, start=True) if not last else parsed(last)
        if mark.request_id != request_id:
            raise Failed("bad_request", "Last-Event-ID is of another answer", param="Last-Event-ID")
        await self._go_on(mark, request.query_params.get("user", ""), scope, receive, send)

    async def _delete(self, request: Request) -> Response:
        caller = caller_of(request.headers, self._keys)
        try:
            request_id = checked("request id", request.path_params["request_id"])
        except BadName:
            raise Failed("not_found", NOT_THERE) from None
        await self._native.stop(caller, request_id, request.query_params.get("user", ""))
        return Response(status_code=204)

    async def _go_on(self, mark: Mark, user: str, scope: Scope, receive: Receive, send: Send) -> None:
        scope[REQUEST_ID] = mark.request_id
        caller = caller_of(Headers(scope=scope), self._keys)
        found = await self._native.resume(caller, mark, user, scope)
        if not found.known and found.answer is None:
            # an EventSource that gets 204 does not come back
            await Response(status_code=204)(scope, receive, send)
            return
        await self._run(mark.request_id, found.known, found.answer, receive, send)

    async def _run(
        self, request_id: str, known: list[Numbered], answer: Answer | None, receive: Receive, send: Send
    ) -> None:
        """Sends what is known and then what comes, and watches the connection."""
        sending = asyncio.ensure_future(self._send(request_id, known, answer, send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            if answer is not None:
                self._native.forget(answer)
                await answer.leave()
        if not sending.cancelled():
            sending.result()

    async def _send(self, request_id: str, known: list[Numbered], answer: Answer | None, send: Send) -> None:
        events = known
        if not events and answer is not None:
            events = await answer.take(FIRST_S)
            if events and isinstance(events[0].event, Failure):
                raise Failed.of(events[0].event)
        headers = HEADERS | {"x-hasten-request-id": request_id}
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": encoded})
        while True:
            ended = answer is None or (bool(events) and isinstance(events[-1].event, Done | Failure))
            body = b"".join(map(frame, events)) if events else PING
            await send({"type": "http.response.body", "body": body, "more_body": not ended})
            if ended or answer is None:
                return
            events = await answer.take(self._settings.ping_s or None)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Endpoint:
    """An ASGI application of a method; Starlette takes a function or method for one that wants a Request."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
