"""uvicorn's HTTP/1.1, which gives the headers of a request a time of their own to arrive in."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Timely(H11Protocol):
    """Closes a connection that has begun a request, or not even that, and does not end its headers in time."""

    headers_s = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._wait_no_more()
        elif self._timer is None:
            self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.trailing_data[0] and self.conn.their_state is h11.IDLE and self._timer is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.headers_s, self.transport.close)

    def _wait_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def protocol(headers_s: float) -> type[H11Protocol]:
    """The protocol with this time for the headers, in seconds."""
    return type("TimelyProtocol", (Timely,), {"headers_s": headers_s})
