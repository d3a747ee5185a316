"""An engine process as its parent sees it: started, asked over a socket pair, and gone when either side ends.

The engine holds the interpreter's lock in every call, for minutes in `optimize`: a thread would stop the event loop of
everything in this process, and a round trip over the socket costs no more than a hop to a thread.
"""

import asyncio
import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from hasten.vectors import wire
from hasten.vectors.store import StoreError

EXIT_S = 30.0
"""How long an engine may take to flush when it is closed."""

T = TypeVar("T")


class _Replies(asyncio.Protocol):
    """Hands each frame to whoever asked first."""

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[bytes]] = deque()
        self.lost = False
        self._buffer = bytearray()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= wire.LENGTH.size:
            end = wire.LENGTH.size + wire.LENGTH.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[wire.LENGTH.size : end])
            del self._buffer[:end]
            answer = self.waiting.popleft()
            if not answer.done():
                answer.set_result(body)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        while self.waiting:
            answer = self.waiting.popleft()
            if not answer.done():
                answer.set_exception(StoreError("the engine of the vector store ended unexpectedly"))


class EngineProcess:
    """One running engine. Make it with `start`; requests are answered in the order they were asked."""

    def __init__(self, child: subprocess.Popen[bytes], transport: asyncio.Transport, replies: _Replies) -> None:
        self._child, self._transport, self._replies = child, transport, replies

    @classmethod
    async def start(cls, place: Path, *, lock: int | None = None) -> Self:
        """Starts an engine for the folder `place`; it keeps the descriptor `lock` open as long as it lives."""
        if importlib.util.find_spec("qdrant_edge") is None:
            raise StoreError("the embedded vector store needs qdrant-edge-py: pip install 'hasten[embedded]'")
        ours, theirs = socket.socketpair()
        with theirs:
            kept = [theirs.fileno()] if lock is None else [theirs.fileno(), lock]
            spawning = asyncio.ensure_future(asyncio.to_thread(_spawn, place, kept))
            try:
                child = await asyncio.shield(spawning)
            except BaseException:
                ours.close()
                await asyncio.wait({spawning})
                if spawning.exception() is None:
                    spawning.result().kill()
                    await asyncio.to_thread(spawning.result().wait)
                raise
        transport, replies = await asyncio.get_running_loop().create_connection(_Replies, sock=ours)
        return cls(child, transport, replies)

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return not self._replies.lost and not self._transport.is_closing()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    async def ask(self, request: wire.AnyRequest, kind: Any = Any) -> Any:
        """The result as `kind`; raises StoreError when the engine refuses or ends."""
        return await self.ask_encoded(encoded(request), kind)

    async def ask_encoded(self, request: bytes, kind: Any = Any) -> Any:
        """Like `ask`, for a request that is a frame already."""
        if not self.alive:
            raise StoreError("the engine of the vector store has ended")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._replies.waiting.append(answer)
        self._transport.write(request)
        body = memoryview(await answer)
        if body[:1] == wire.REFUSED:
            raise StoreError(bytes(body[1:]).decode())
        return msgspec.msgpack.decode(body[1:], type=kind)

    async def stop(self, *, flush: bool = True) -> None:
        """Lets it answer what was asked, flush if that is wanted, and end; kills it when that takes longer than
        `EXIT_S`."""
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(EXIT_S):
                await self.ask(wire.Close() if flush else wire.Get(ids=[]))
        self._transport.close()
        await asyncio.to_thread(self._reap)

    def kill(self) -> None:
        """Ends it at once."""
        self._child.kill()

    def _reap(self) -> None:
        try:
            self._child.wait(1)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def encoded(request: wire.AnyRequest) -> bytes:
    """The frame of a request; raises StoreError for a payload that is not plain data."""
    try:
        return wire.frame(wire.encode(request))
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        raise StoreError("the payload holds something that JSON cannot") from None


def _spawn(place: Path, kept: list[int]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "hasten.vectors.engine", str(kept[0]), str(place)]
    paths = os.pathsep.join([path for path in sys.path if path])
    try:
        return subprocess.Popen(
            command,
            pass_fds=kept,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": paths},
        )
    except OSError as error:
        raise StoreError(f"the engine of the vector store cannot be started ({error.strerror})") from None


async def to_the_end(work: Callable[[], T]) -> T:
    """Runs file work in a thread; a cancellation takes effect when it has ended."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise
