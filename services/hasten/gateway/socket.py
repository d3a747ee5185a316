"""WebSocket /v1/stream: several answers on one connection, each asked, cancelled and gone on with by messages."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send

from hasten.caller import Caller
from hasten.gateway.access import caller_of, known
from hasten.gateway.answer import Answer, Numbered
from hasten.gateway.body import decoded
from hasten.gateway.mark import Mark, parsed
from hasten.gateway.native import STOPPING, Native
from hasten.gateway.settings import Settings
from hasten.keys import KeyRing
from hasten.messages.chat import Done
from hasten.messages.failure import Failed, Failure
from hasten.topics import PREFIX, BadName, checked, random_id

PROTOCOL = PREFIX
KEY_PROTOCOL = "hasten-key."
"""A browser cannot set headers of a WebSocket: it offers this subprotocol with its key, beside `PROTOCOL`."""
NOT_UNDERSTOOD, SERVICE_RESTART, REVOKED, IDLE = 1003, 1012, 4401, 4408
"""Close codes: those of RFC 6455 and its registry, and two of our own."""
_KINDS = ("ask", "resume", "cancel")
WhoCalls = Callable[[], Caller]
"""Says whose the key is now; raises Failed(unauthorized | forbidden)."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a client. `ask` has a `request` (a chat body) and may name it (`request_id`); `resume` has the
    `last_event_id` (or, from the beginning, the `request_id`) and the `user` where the answer is one user's; `cancel`
    has the `request_id`."""

    type: str
    request_id: str = ""
    request: dict[str, Any] = {}
    last_event_id: str = ""
    user: str = ""


class Socket:
    """The endpoint."""

    def __init__(self, native: Native, settings: Settings, keys: KeyRing) -> None:
        self._native, self._settings, self._keys = native, settings, keys
        self._open: set[_Connection] = set()
        self.routes = [WebSocketRoute("/v1/stream", self)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection; raises Failed(unauthorized | forbidden) before it is accepted."""
        headers = Headers(scope=scope)
        offered = next((one for one in scope["subprotocols"] if one.startswith(KEY_PROTOCOL)), "")

        def caller() -> Caller:
            if "authorization" in headers or not offered:
                return caller_of(headers, self._keys)
            return known(offered.removeprefix(KEY_PROTOCOL), headers, self._keys)

        caller()
        await receive()
        subprotocol = PROTOCOL if PROTOCOL in scope["subprotocols"] else None
        await send({"type": "websocket.accept", "subprotocol": subprotocol})
        connection = _Connection(self._native, self._settings, caller, scope, send)
        self._open.add(connection)
        try:
            await connection.run(receive)
        finally:
            self._open.discard(connection)

    async def end_all(self) -> None:
        """Closes every connection, when its answers have been told that another gateway can go on with them."""
        await asyncio.gather(*(connection.end() for connection in self._open))


class _Connection:
    """One client. Every event goes out as `{"request_id", "id", "event"}`, in the order of its answer."""

    def __init__(
        self, native: Native, settings: Settings, caller: Callable[[], Caller], scope: Scope, send: Send
    ) -> None:
        self._native, self._settings, self._caller, self._scope, self._send = native, settings, caller, scope, send
        self._answers: dict[str, asyncio.Task[None]] = {}
        self._cancelled: set[str] = set()
        self._closed = False

    async def run(self, receive: Receive) -> None:
        """Returns when the connection is closed; what was still being answered is left to the grace time."""
        try:
            while True:
                message = await self._next(receive)
                if message is None or message["type"] == "websocket.disconnect":
                    return
                if (text := message.get("text")) is None:
                    await self._close(NOT_UNDERSTOOD, "messages are JSON texts")
                    return
                try:
                    caller = self._caller()
                except Failed as failed:
                    await self._close(REVOKED, failed.failure.detail)
                    return
                await self._hear(text, caller)
        finally:
            self._closed = True
            for task in self._answers.values():
                task.cancel()
            await asyncio.gather(*self._answers.values(), return_exceptions=True)

    async def _next(self, receive: Receive) -> Mapping[str, Any] | None:
        """The next message; None when the connection was closed for want of one while nothing is answered."""
        receiving = asyncio.ensure_future(receive())
        try:
            while True:
                done, _ = await asyncio.wait({receiving}, timeout=self._settings.socket_idle_s)
                if done:
                    return receiving.result()
                if not self._answers:
                    await self._close(IDLE, f"nothing was asked for {self._settings.socket_idle_s:g} s")
                    return None
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def _hear(self, text: str, caller: Caller) -> None:
        request_id = ""
        try:
            said = _said(text)
            mark = parsed(said.last_event_id) if said.last_event_id else None
            request_id = checked("request_id", (mark.request_id if mark else said.request_id) or random_id())
            if said.type == "cancel":
                await self._cancel(request_id, said, caller)
            elif request_id in self._answers:
                raise Failed("bad_request", "this request is being answered on this connection", param="request_id")
            elif len(self._answers) >= self._settings.socket_requests:
                raise Failed("overloaded", f"a connection may have {self._settings.socket_requests} requests at once")
            else:
                self._begin(request_id, said, mark, caller)
        except BadName as error:
            await self._say(request_id, "", Failure(code="bad_request", detail=str(error), param="request_id"))
        except Failed as failed:
            await self._say(request_id, "", failed.failure)

    def _begin(self, request_id: str, said: Said, mark: Mark | None, caller: Caller) -> None:
        work = (
            self._ask(request_id, said, caller)
            if said.type == "ask"
            else self._resume(request_id, mark or Mark(request_id=request_id, start=True), said, caller)
        )
        task = asyncio.ensure_future(work)
        self._answers[request_id] = task
        task.add_done_callback(lambda _: self._answers.pop(request_id, None))

    async def _cancel(self, request_id: str, said: Said, caller: Caller) -> None:
        task = self._answers.get(request_id)
        if task is None:
            await self._native.stop(caller, request_id, said.user)
            return
        self._cancelled.add(request_id)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._cancelled.discard(request_id)
        await self._native.cancel(caller, request_id)
        await self._say(request_id, "", Failure(code="cancelled", detail="the request was cancelled"))

    async def _ask(self, request_id: str, said: Said, caller: Caller) -> None:
        try:
            scope = dict(self._scope)
            headers: Mapping[str, str] = {}
            answer = await self._native.ask(said.request, headers, caller, request_id, scope)
        except Failed as failed:
            await self._say(request_id, "", failed.failure)
            return
        await self._pass_on(request_id, [], answer)

    async def _resume(self, request_id: str, mark: Mark, said: Said, caller: Caller) -> None:
        try:
            found = await self._native.resume(caller, mark, said.user, dict(self._scope))
        except Failed as failed:
            await self._say(request_id, "", failed.failure)
            return
        await self._pass_on(request_id, found.known, found.answer)

    async def _pass_on(self, request_id: str, known_: list[Numbered], answer: Answer | None) -> None:
        try:
            for one in known_:
                await self._say(request_id, one.id, one.event)
            while answer is not None:
                for one in await answer.take(None):
                    await self._say(request_id, one.id, one.event)
                    if isinstance(one.event, Done | Failure):
                        return
        finally:
            if answer is not None:
                self._native.forget(answer)
                await (answer.cancel() if request_id in self._cancelled else answer.leave())

    async def _say(self, request_id: str, id_: str, event: Any) -> None:
        if self._closed:
            return
        data = {"request_id": request_id, **({"id": id_} if id_ else {}), "event": event}
        await self._send({"type": "websocket.send", "text": msgspec.json.encode(data).decode()})

    async def _close(self, code: int, reason: str) -> None:
        if not self._closed:
            self._closed = True
            with contextlib.suppress(Exception):
                await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def end(self) -> None:
        """Waits until the answers, which have been ended, are passed on, and closes."""
        if self._answers:
            await asyncio.wait(set(self._answers.values()), timeout=1)
        await self._close(SERVICE_RESTART, STOPPING)


def _said(text: str) -> Said:
    try:
        said = msgspec.convert(decoded(text.encode()), Said)
    except (msgspec.ValidationError, UnicodeEncodeError):
        raise Failed("bad_request", "a message has a type (ask, resume or cancel) and texts, and a request") from None
    if said.type not in _KINDS:
        raise Failed("bad_request", f"type must be one of {', '.join(_KINDS)}", param="type")
    return said
