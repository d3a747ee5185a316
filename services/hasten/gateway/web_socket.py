"""uvicorn's WebSocket, which cuts off a peer that asks for memory without an end: by pings, or by frames of nothing."""

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

MOST_OWED = 64
"""Answers to pings that a peer may leave unread: they wait for nothing, unlike events."""
MOST_FRAMES = 64 * 1024
"""Of one message: its bytes are counted already, and a frame may have none."""


class Bounded(WebSocketsSansIOProtocol):
    """Bounds what a peer that reads nothing, or never ends its message, can have held for it."""

    _owed = 0

    def handle_ping(self) -> None:
        super().handle_ping()
        self._owed = 0 if self.writable.is_set() else self._owed + 1
        if self._owed > MOST_OWED:
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        super().handle_cont(event)
        if len(self.frames) > MOST_FRAMES:
            self.transport.abort()
