"""One chat request between its caller and the bus: read, written and watched at once, and cancelled if it is left."""

import asyncio
import contextlib
from typing import Any

import msgspec
from starlette.types import Receive, Send

from hasten.bus import Bus
from hasten.chat_stream import ChatStream
from hasten.deadline import now_ms
from hasten.gateway.choices import Choices, Chosen, bodies
from hasten.gateway.domain import Ask
from hasten.gateway.feed import Feed
from hasten.gateway.head import Head
from hasten.gateway.rates import Grant
from hasten.gateway.settings import Settings
from hasten.gateway.sse import HEADERS, PING
from hasten.gateway.wire import Wire
from hasten.messages.chat import CHAT, Chunk, Done, Ping
from hasten.messages.failure import Failed, Failure
from hasten.telemetry import counter
from hasten.topics import random_id

CANCEL_WAIT_S = 1.0
_ended = counter("gateway_chats_total", "Chat requests that ended at the HTTP edge, by how", "how")


class Exchange:
    """Answers one HTTP caller (`run`). Three things go on side by side: events come in from the bus, the answer goes
    out, and the connection is watched. Whichever way it ends, a request that is still being worked on is cancelled."""

    def __init__(
        self, bus: Bus, settings: Settings, tenant: str, ask: Ask, head: Head, wire: Wire, grant: Grant
    ) -> None:
        self._bus, self._settings, self._tenant, self._ask = bus, settings, tenant, ask
        self._head, self._wire, self._grant = head, wire, grant
        self._feed = Feed(settings.max_unsent_bytes)
        self._over = False
        self._ids = [head.request_id, *(random_id() for _ in range(1, ask.choices))]

    async def run(self, receive: Receive, send: Send) -> None:
        """Returns when the answer has been sent or the caller has gone; raises Failed if nothing was sent yet."""
        stream = await self._open()
        answering = asyncio.ensure_future(self._stream(send) if self._ask.stream else self._whole(send))
        tasks = (asyncio.ensure_future(_left(receive)), answering, asyncio.ensure_future(self._pump(stream)))
        try:
            await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not self._over:
                await self._cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if not self._over:
                await _settled(stream)
            await stream.aclose()
            _ended.labels(self._how(answering)).inc()
        if not answering.cancelled():
            answering.result()

    def end(self, failure: Failure) -> None:
        """Ends the answer with a failure, after what has come of it."""
        self._feed.put(failure)

    def _how(self, answering: asyncio.Future[None]) -> str:
        if answering.cancelled():
            return "left"
        return "answered" if self._over else "cut"

    async def _open(self) -> ChatStream | Choices:
        deadline_ms = now_ms() + (self._ask.deadline_ms or self._settings.deadline_s * 1000)
        streams = [
            ChatStream(
                self._bus,
                self._tenant,
                body,
                deadline_ms=deadline_ms,
                request_id=request_id,
                silence_s=self._settings.silence_s,
                resume_s=self._settings.resume_s,
            )
            for request_id, body in zip(self._ids, bodies(self._ask.body, self._ask.choices), strict=True)
        ]
        return await (streams[0] if len(streams) == 1 else Choices(streams)).open()

    async def _pump(self, stream: ChatStream | Choices) -> None:
        async for event in stream:
            self._head.see(event)
            self._grant.see(event)
            if not isinstance(event, Ping):
                self._feed.put(event)
            self._over = isinstance(event, (Done, Failure))
            if self._feed.ended:
                break
        if not self._over:
            await self._cancel()

    async def _whole(self, send: Send) -> None:
        last: Any = None
        while not isinstance(last, Done | Failure):
            for last in await self._feed.take(None):
                self._wire.see(last)
        if isinstance(last, Failure):
            raise Failed.of(last)
        body = msgspec.json.encode(self._wire.body(last))
        await _start(send, {"Content-Type": "application/json", "Content-Length": str(len(body))}, self._head)
        await send({"type": "http.response.body", "body": body})

    async def _stream(self, send: Send) -> None:
        events = await self._held()
        if not any(isinstance(event, Chunk | Chosen) for event in events) and isinstance(events[-1], Failure):
            raise Failed.of(events[-1])
        await _start(send, HEADERS, self._head)
        while True:
            ended = bool(events) and isinstance(events[-1], (Done, Failure))
            body = b"".join(map(self._wire.frames, events)) if events else PING
            if body or ended:
                await send({"type": "http.response.body", "body": body, "more_body": not ended})
            if ended:
                return
            events = await self._feed.take(self._settings.ping_s or None)

    async def _held(self) -> list[Any]:
        """The events up to the first that can be shown, or, once the request is admitted, those of `headers_s`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.headers_s
        held: list[Any] = []
        while not any(isinstance(event, (Chunk, Chosen, Done, Failure)) for event in held):
            left = until - loop.time()
            if held and left <= 0:
                break
            held += await self._feed.take(left if left > 0 else None)
        return held

    async def _cancel(self) -> None:
        for request_id in self._ids:
            with contextlib.suppress(Exception):
                await self._bus.cancel(CHAT, request_id, tenant=self._tenant)


async def _left(receive: Receive) -> None:
    """Returns when the caller has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _settled(stream: ChatStream | Choices) -> None:
    """Gives the request a moment to end. A CANCEL can be lost, or overtake the request; leaving the stream before its
    end sends another."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CANCEL_WAIT_S):
            async for _ in stream:
                pass


async def _start(send: Send, headers: dict[str, str], head: Head) -> None:
    encoded = [(name.encode(), value.encode()) for name, value in (headers | head.headers()).items()]
    await send({"type": "http.response.start", "status": 200, "headers": encoded})
