"""A WebSocket's peer that speaks in odd frames: none of it is held for it without an end, and others notice nothing."""

import asyncio
import base64
import os
import select
import socket
from collections.abc import Iterator
from itertools import repeat

import pytest
from patience import PATIENCE_S
from scripted_edge import Edge, edge

from hasten.bus import Bus

TEXT, CONTINUED, PING = 0x1, 0x0, 0x9
HANDSHAKE = (
    "GET /v1/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: {}\r\nAuthorization: Bearer {}\r\n\r\n"
)


def frame(opcode: int, data: bytes = b"", *, last: bool = True) -> bytes:
    """A short frame of a client, with a mask of zeros."""
    return bytes([opcode | (0x80 if last else 0), 0x80 | len(data)]) + bytes(4) + data


def cut_off(made: Edge, frames: Iterator[bytes], most: int) -> bool:
    """Whether a peer that says this and reads nothing is cut off within so many frames."""
    host, _, port = made.gateway.url.removeprefix("http://").rpartition(":")
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect((host, int(port)))
        peer.settimeout(60)
        key = made.http.headers["authorization"].removeprefix("Bearer ")
        peer.sendall(HANDSHAKE.format(base64.b64encode(os.urandom(16)).decode(), key).encode())
        assert peer.recv(12) == b"HTTP/1.1 101"
        try:
            for _ in range(most // 100):
                peer.sendall(b"".join(next(frames) for _ in range(100)))
        except (BrokenPipeError, ConnectionResetError):
            return True
        # The kernel takes some megabytes more than the gateway has read: what was sent may be judged later.
        ended = select.poll()
        ended.register(peer, select.POLLRDHUP)
        return bool(ended.poll(PATIENCE_S * 1000))


def endless() -> Iterator[bytes]:
    yield frame(TEXT, last=False)
    yield from repeat(frame(CONTINUED, last=False))


@pytest.mark.parametrize("frames", [repeat(frame(PING, b"x" * 125)), endless()], ids=["pings", "empty frames"])
async def test_who_sends_without_an_end_and_reads_nothing_is_cut_off(bus: Bus, frames: Iterator[bytes]) -> None:
    async with edge(bus, ping_s=0) as made:
        assert await asyncio.to_thread(cut_off, made, frames, 1_000_000)
        assert (await made.http.get("/v1/models")).status_code == 200
