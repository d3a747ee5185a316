"""A client of OpenAI's HTTP API that costs as little as it can: what is measured with it is not the client."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

HEAD_END, LAST_PIECE = b"\r\n\r\n", b"0\r\n\r\n"


class Told(msgspec.Struct):
    """One answer as it came: its status, headers, whole body, and when (monotonic s) each piece of it was read."""

    status: int = 0
    head: bytes = b""
    body: bytes = b""
    pieces: list[tuple[float, int]] = []
    """When a piece was read, and how long the body was then."""

    def header(self, name: str) -> str:
        """A header's value, empty when there is none."""
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.strip().lower() == name:
                return value.strip()
        return ""


class _Connection(asyncio.Protocol):
    """One connection, with one exchange at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._told, self._raw = Told(), bytearray()
        self._ended: asyncio.Future[Told] | None = None
        self._length: int | None = None
        self.open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def ask(self, raw: bytes) -> asyncio.Future[Told]:
        """Sends a request; the answer comes when it is whole."""
        assert self.transport is not None
        self._told, self._raw, self._length = Told(pieces=[]), bytearray(), None
        self._ended = asyncio.get_running_loop().create_future()
        self.transport.write(raw)
        return self._ended

    def data_received(self, data: bytes) -> None:
        now, told = time.monotonic(), self._told
        self._raw += data
        if not told.head:
            at = self._raw.find(HEAD_END)
            if at < 0:
                return
            told.head = bytes(self._raw[:at])
            told.status = int(told.head[9:12])
            del self._raw[: at + 4]
            length = told.header("content-length")
            self._length = int(length) if length else None
        told.pieces.append((now, len(self._raw)))
        if (self._length is None and self._raw.endswith(LAST_PIECE)) or len(self._raw) == self._length:
            self._end()

    def _end(self) -> None:
        told, self.open = self._told, self._told.header("connection").lower() != "close"
        told.body = bytes(self._raw)
        if not self.open and self.transport is not None:
            self.transport.close()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(told)

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(ConnectionError("the connection was closed before the answer was whole"))


class HttpLanes:
    """Kept connections to one server, as many as there are exchanges at once."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._prefix = parts.hostname or "127.0.0.1", parts.port or 80, parts.path.rstrip("/")
        self._head = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self._free: list[_Connection] = []

    async def post(self, path: str, body: Any) -> Told:
        """One exchange; raises ConnectionError and OSError."""
        raw = msgspec.json.encode(body)
        more = f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n"
        return await self._exchange("POST", path, more, raw)

    async def get(self, path: str) -> Told:
        """Like `post`, without a body."""
        return await self._exchange("GET", path, "", b"")

    async def _exchange(self, method: str, path: str, more: str, raw: bytes) -> Told:
        where = f"{method} {self._prefix}{path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
        lane = await self._lane()
        try:
            told = await lane.ask(f"{where}{self._head}{more}\r\n".encode() + raw)
        except BaseException:
            if lane.transport is not None:
                lane.transport.abort()
            raise
        if lane.open:
            self._free.append(lane)
        return told

    async def _lane(self) -> _Connection:
        while self._free:
            if (lane := self._free.pop()).open:
                return lane
        make: Callable[[], _Connection] = _Connection
        _, lane = await asyncio.get_running_loop().create_connection(make, self._host, self._port)
        return lane

    def close(self) -> None:
        """Closes what is free."""
        for lane in self._free:
            if lane.transport is not None:
                lane.transport.close()
        self._free.clear()
