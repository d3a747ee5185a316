"""Connections that carry one exchange at a time, so that giving up an exchange is to hang up.

httpcore never resets an HTTP/2 stream: over a shared connection the server would go on for nobody, and a hundred of
those later the connection takes no more (docs/decisions/0016-a-connection-for-each-exchange.md).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

FRESH = "hasten.fresh"
"""The extension of a request that must not have a connection which was used before."""


class LaneTransport(httpx.AsyncBaseTransport):
    """Sends each request on a lane of its own, made by `make`, and keeps it for `kept_s` once the answer is whole."""

    def __init__(self, make: Callable[[], httpx.AsyncBaseTransport], kept_s: float) -> None:
        self._make, self._kept_s = make, kept_s
        self._free: list[tuple[float, httpx.AsyncBaseTransport]] = []
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request on the lane that was used last, or a new one."""
        fresh = request.extensions.pop(FRESH, False) or not self._free
        lane = self._make() if fresh else self._free.pop()[1]
        try:
            response = await _sent(lane, request)
        except BaseException:
            await lane.aclose()
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Stream(self, lane, response.stream)
        return response

    async def give_back(self, lane: httpx.AsyncBaseTransport, *, whole: bool) -> None:
        """Keeps a lane whose answer was read to its end, and closes those that have waited for too long."""
        now = time.monotonic()
        if whole and not self._closed:
            self._free.append((now, lane))
        else:
            await lane.aclose()
        while self._free and self._free[0][0] < now - self._kept_s:
            await self._free.pop(0)[1].aclose()

    async def aclose(self) -> None:
        """Closes the lanes that are free; those in use are closed by who uses them."""
        self._closed = True
        while self._free:
            await self._free.pop()[1].aclose()


async def _sent(lane: httpx.AsyncBaseTransport, request: httpx.Request) -> httpx.Response:
    """The response; a cancel waits for the end of a handshake, in the middle of which httpcore loses the socket."""
    handshake = _Handshake("start_tls" if request.url.scheme == "https" else "connect_tcp")
    request.extensions["trace"] = handshake.trace
    sending = asyncio.get_running_loop().create_task(lane.handle_async_request(request))
    try:
        return await asyncio.shield(sending)
    except asyncio.CancelledError:
        over = asyncio.get_running_loop().create_task(handshake.over.wait())
        await asyncio.wait([sending, over], return_when=asyncio.FIRST_COMPLETED)
        for task in (over, sending):
            task.cancel()
        for left in await asyncio.gather(sending, over, return_exceptions=True):
            if isinstance(left, httpx.Response):
                await left.aclose()
        raise


class _Handshake:
    """Follows httpcore's trace: `over` is set but for the time in which a connection is made, up to its `last` step."""

    def __init__(self, last: str) -> None:
        self._last = f"connection.{last}.complete"
        self.over = asyncio.Event()
        self.over.set()

    async def trace(self, name: str, info: dict[str, Any]) -> None:
        """Hears what httpcore does."""
        if name == "connection.connect_tcp.started":
            self.over.clear()
        elif name == self._last:
            self.over.set()


class _Stream(httpx.AsyncByteStream):
    def __init__(self, lanes: LaneTransport, lane: httpx.AsyncBaseTransport, inner: httpx.AsyncByteStream) -> None:
        self._lanes, self._lane, self._inner = lanes, lane, inner
        self._whole = self._gone = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for raw in self._inner:
            yield raw
        self._whole = True

    async def aclose(self) -> None:
        if self._gone:
            return
        self._gone = True
        await self._inner.aclose()
        await self._lanes.give_back(self._lane, whole=self._whole)
