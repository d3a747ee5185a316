"""Serves an ASGI application with uvicorn inside a loop that belongs to others: no signals, no exit, no log."""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from hasten.gateway.protocol import protocol
from hasten.gateway.web_socket import Bounded
from hasten.run import host_port
from hasten.settings import SettingsError

KEEP_ALIVE_S = 75
"""Longer than the minute after which most balancers drop an idle connection themselves."""
SEND_BUFFER = 128 * 1024
"""Of the kernel per connection. Left alone it grows to megabytes, which a slow reader's answer would vanish into."""


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it is up and leaves the process's signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


class HttpServer:
    """One listening socket and what is served on it.

    A peer that takes nothing of what was sent to it for `write_timeout_s` is cut off by the kernel (TCP_USER_TIMEOUT,
    where the system has it): one that has vanished, one that has stopped reading, and one that closed its half. The
    headers of a request have to arrive within `read_timeout_s` and in `max_header_bytes`; `max_body_bytes` is the
    longest message of a WebSocket, which is pinged every `ping_s` (0: never).
    """

    def __init__(
        self,
        app: ASGIApp,
        http: str,
        *,
        read_timeout_s: float,
        write_timeout_s: float,
        max_header_bytes: int,
        max_body_bytes: int,
        ping_s: float,
    ) -> None:
        self._host, self._port = host_port(http, "http")
        self._write_timeout_s = write_timeout_s
        self._server = _Server(
            uvicorn.Config(
                app,
                http=protocol(read_timeout_s),
                h11_max_incomplete_event_size=max_header_bytes,
                ws=Bounded,
                ws_max_size=max_body_bytes,
                ws_per_message_deflate=False,
                ws_ping_interval=ping_s or None,
                ws_ping_timeout=write_timeout_s,
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
            )
        )
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT as it is listened on; the port is the real one when 0 was asked for."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self._server.server_state.connections)

    async def start(self) -> None:
        """Returns when connections are accepted; raises SettingsError when the address cannot be listened on."""
        listener = _listen(self._host, self._port, self._write_timeout_s)
        self._port = listener.getsockname()[1]
        self._task = asyncio.get_running_loop().create_task(self._server.serve(sockets=[listener]))
        up = asyncio.ensure_future(self._server.up.wait())
        await asyncio.wait({self._task, up}, return_when=asyncio.FIRST_COMPLETED)
        if not self._server.up.is_set():
            up.cancel()
            self._task.result()

    async def drain(self) -> None:
        """Accepts no more connections and returns when all that were being answered are."""
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.wait({self._task})

    async def close(self, patience_s: float = 2.0) -> None:
        """Waits `patience_s` for what is being answered, then cuts off every connection."""
        if self._task is None:
            return
        self._server.should_exit = True
        await asyncio.wait({self._task}, timeout=patience_s)
        self._server.force_exit = True
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        _, late = await asyncio.wait({self._task}, timeout=1)
        for task in late:
            task.cancel()


def check_free(http: str) -> None:
    """Raises SettingsError when HOST:PORT cannot be listened on now; port 0 always can."""
    host, port = host_port(http, "http")
    _listen(host, port, 0).close()


def _listen(host: str, port: int, write_timeout_s: float) -> socket.socket:
    listener: socket.socket | None = None
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        if (option := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:
            listener.setsockopt(socket.IPPROTO_TCP, option, int(write_timeout_s * 1000))
        listener.bind(address)
        listener.listen(1024)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise SettingsError(_sentence(host, port, error)) from None
    return listener


def _sentence(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"http: port {port} on {host} is in use; give another one with --http HOST:PORT"
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
    return f"http: {host}:{port} cannot be listened on: {reason}"
