"""GET /v1/board: the live figures as server-sent events, each tenant its own, an operator all of them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hasten.board import HEARD, Board
from hasten.bus import Bus
from hasten.caller import Caller
from hasten.codec import decode
from hasten.gateway.access import caller_of
from hasten.gateway.settings import Settings
from hasten.gateway.sse import HEADERS
from hasten.keys import KeyRing
from hasten.messages.failure import Failed
from hasten.topics import BadName, Topic


class Live:
    """Listens to what has ended from its start on, so that a board shows the last minutes to whoever opens it.

    A view is made for all readers of a tenant at once, however many there are. A reader whose key has been taken back
    is left.
    """

    def __init__(self, bus: Bus, settings: Settings, keys: KeyRing) -> None:
        self._bus, self._settings, self._keys = bus, settings, keys
        self._board = Board(time.monotonic())
        self._views: dict[str | None, tuple[float, bytes]] = {}
        self._readers = 0
        self._over = asyncio.Event()
        self._heard: list[Subscription] = []

    async def start(self) -> None:
        """Returns when events are heard."""
        for topic in HEARD:
            await self._listen(topic)

    async def _listen(self, topic: Topic) -> None:
        async def receive(msg: Msg) -> None:
            with contextlib.suppress(BadName, Failed):
                self._board.hear(decode(topic.request, msg.data), topic.parse(msg.subject), time.monotonic())

        self._heard.append(await self._bus.subscribe(topic.pattern, receive))

    async def close(self) -> None:
        """Listens no more."""
        self.end()
        for subscription in self._heard:
            with contextlib.suppress(nats.errors.Error):
                await subscription.unsubscribe()

    def end(self) -> None:
        """Ends every stream: their readers come back to another replica."""
        self._over.set()

    async def board(self, request: Request) -> Response:
        """A stream of `caller` (who the key stands for) and then of `view` events, until the reader leaves."""
        caller_of(request.headers, self._keys)
        if self._readers >= self._settings.max_boards:
            detail = f"{self._readers} boards are being read, and no more may be"
            raise Failed("overloaded", detail, retry_after_ms=5000)
        return StreamingResponse(self._events(request), headers=HEADERS)

    async def _events(self, request: Request) -> AsyncIterator[bytes]:
        self._readers += 1
        told: Caller | None = None
        try:
            while not self._over.is_set():
                try:
                    caller = caller_of(request.headers, self._keys)
                except Failed:
                    return
                if caller != told:
                    told = caller
                    yield _event("caller", {"tenant": caller.tenant, "operator": caller.operator})
                yield self._view(None if caller.operator else caller.tenant)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._settings.board_s):
                        await self._over.wait()
        finally:
            self._readers -= 1

    def _view(self, tenant: str | None) -> bytes:
        now_s = time.monotonic()
        made_s, made = self._views.get(tenant, (0.0, b""))
        if not made or now_s - made_s > self._settings.board_s / 2:
            made = _event("view", self._board.view(now_s, tenant))
            if len(self._views) > self._settings.max_boards:
                self._views.clear()
            self._views[tenant] = (now_s, made)
        return made


def _event(name: str, data: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))
