"""An OpenAI-compatible server that speaks HTTP/2 over TLS, with a certificate made for the test."""

import asyncio
import json
import ssl
import subprocess
from pathlib import Path
from typing import Any, Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    made = folder / "certificate.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(made[0]), "-keyout", str(made[1])]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    return made


def event(text: str, finish_reason: str | None = None) -> bytes:
    """One event of an answer."""
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish_reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


class H2Server:
    """Answers every chat with `words` and an end; with `endless` it says a word and then nothing, until it is left."""

    def __init__(self, words: str = "Hello") -> None:
        self.words, self.endless = words, False
        self.connections = 0
        self.live: set[_Connection] = set()
        self._serving: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, cert: Path, key: Path) -> Self:
        """Listens on a free port of 127.0.0.1."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        context.set_alpn_protocols(["h2"])
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context, ssl_shutdown_timeout=0.2)
        return self

    @property
    def open_streams(self) -> int:
        """How many answers somebody still waits for."""
        return sum(len(connection.streams) for connection in self.live)

    @property
    def url(self) -> str:
        """Its address."""
        assert self._server is not None
        return f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection, task = _Connection(self, writer), asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        self.live.add(connection)
        try:
            await connection.serve(reader)
        except (ConnectionError, TimeoutError, ProtocolError, ssl.SSLError):
            pass  # who hangs up does not say goodbye
        finally:
            self.live.discard(connection)
            connection.close()

    async def say_goodbye(self) -> None:
        """Tells every client that its connection ends, and ends it."""
        for connection in list(self.live):
            connection.goodbye()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def close(self) -> None:
        """Stops listening, hangs up, and waits until all have heard it."""
        assert self._server is not None
        self._server.close()
        for connection in list(self.live):
            connection.close()
        await asyncio.gather(*self._serving, return_exceptions=True)


class _Connection:
    def __init__(self, server: H2Server, writer: asyncio.StreamWriter) -> None:
        self._server, self._writer = server, writer
        self._h2 = H2Connection(config=H2Configuration(client_side=False))
        self._paths: dict[int, str] = {}
        self.streams: set[int] = set()

    async def serve(self, reader: asyncio.StreamReader) -> None:
        self._h2.initiate_connection()
        self._flush()
        while raw := await reader.read(65536):
            for each in self._h2.receive_data(raw):
                self._handle(each)
            self._flush()

    def _handle(self, each: Any) -> None:
        if isinstance(each, RequestReceived):
            headers = {bytes(name): bytes(value) for name, value in each.headers or ()}
            self._paths[each.stream_id] = headers[b":path"].decode()
        elif isinstance(each, DataReceived):
            self._h2.acknowledge_received_data(each.flow_controlled_length, each.stream_id)
        elif isinstance(each, StreamEnded):
            self._answer(each.stream_id, self._paths.pop(each.stream_id))
        elif isinstance(each, StreamReset):
            self.streams.discard(each.stream_id)

    def _answer(self, stream: int, path: str) -> None:
        chat = path.endswith("chat/completions")
        kind = "text/event-stream" if chat else "application/json"
        self._h2.send_headers(stream, [(":status", "200"), ("content-type", kind)])
        if not chat:
            self._h2.send_data(stream, b'{"data": []}', end_stream=True)
            return
        self.streams.add(stream)
        self._h2.send_data(stream, event(self._server.words))
        if not self._server.endless:
            self._h2.send_data(stream, event("", "stop") + b"data: [DONE]\n\n", end_stream=True)
            self.streams.discard(stream)

    def goodbye(self) -> None:
        self._h2.close_connection()
        self._flush()
        self.close()

    def _flush(self) -> None:
        if not self._writer.is_closing():
            self._writer.write(self._h2.data_to_send())

    def close(self) -> None:
        self._writer.close()
