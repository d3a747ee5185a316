"""A caller over HTTP that reads slowly or not at all, and what becomes of its stream."""

import asyncio
import json
import re
import socket
import time
from typing import Any

import msgspec

_CONTENT = re.compile(rb'"content": ?"((?:[^"\\]|\\.)*)"')
_CODE = re.compile(rb'"code": ?"(\w+)"')
HUNG_S = 30.0


class Fate(msgspec.Struct, kw_only=True):
    """What one reader got: how many tokens in how many frames, and how it ended."""

    tokens: int = 0
    frames: int = 0
    ended: str = ""
    seconds: float = 0.0


async def read_slowly(http: str, key: str, body: dict[str, Any], bytes_per_s: int, seconds: float) -> Fate:
    """Asks for a stream with a receive buffer of 4 kB; reads so many bytes a second for so long, then all there is.

    0 bytes a second is a reader that has stopped: it looks after that time what the gateway has done.
    """
    host, _, port = http.removeprefix("http://").rpartition(":")
    loop, began, got = asyncio.get_running_loop(), time.monotonic(), b""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        await loop.sock_connect(connection, (host, int(port)))
        content = json.dumps({**body, "stream": True})
        head = f"Host: x\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(content)}"
        ask = f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n\r\n{content}"
        await loop.sock_sendall(connection, ask.encode())
        hung_up = False
        try:
            while time.monotonic() - began < seconds and not _whole(got):
                if bytes_per_s:
                    got += await loop.sock_recv(connection, max(1, bytes_per_s // 10))
                await asyncio.sleep(0.1)
            async with asyncio.timeout(HUNG_S):
                while not _whole(got):
                    if not (more := await loop.sock_recv(connection, 65536)):
                        break
                    got += more
        except (ConnectionError, TimeoutError):
            hung_up = True
    return _fate(got, hung_up, time.monotonic() - began)


def _whole(got: bytes) -> bool:
    return got.endswith(b"0\r\n\r\n")


def _fate(got: bytes, hung_up: bool, seconds: float) -> Fate:
    contents = _CONTENT.findall(got)
    code = _CODE.search(got)
    ended = code[1].decode() if code else "done" if b"[DONE]" in got else "cut off" if hung_up else "closed"
    tokens = sum(one.count(b" ") for one in contents)
    return Fate(tokens=tokens, frames=len(contents), ended=ended, seconds=round(seconds, 1))
