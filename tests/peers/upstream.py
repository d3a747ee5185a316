"""A server of OpenAI's chat API over HTTP/1.1 that answers byte for byte what a test wants, and an engine for it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.models import EngineConfig, Model
from hasten.worker.engines import Delta, EngineError
from hasten.worker.engines.openai import OpenAIEngine

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
QUESTION = Generate(messages=[Turn(role="user", content="My IBAN is NO00 1234")], max_tokens=40)


def piece(raw: bytes) -> bytes:
    """A piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(raw), raw)


def data(plain: dict[str, Any]) -> bytes:
    """An event."""
    return piece(b"data: " + json.dumps(plain).encode() + b"\n\n")


def said(text: str, finish_reason: str | None = None) -> bytes:
    """An event of an answer."""
    delta = {"content": text} if text else {}
    return data({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


DONE = piece(b"data: [DONE]\n\n")
LAST = b"0\r\n\r\n"
WELL = EVENTS + said("Hel") + said("lo") + said("", "stop") + DONE + LAST


def response(status: str, plain: dict[str, Any], headers: str = "") -> bytes:
    """A whole response that is no stream."""
    raw = json.dumps(plain).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(raw)}\r\n\r\n"
    return head.encode() + raw


class Upstream:
    """An HTTP/1.1 server that answers each request with the next of `scripts`: bytes, or a function that writes.

    A question for its models is answered with `models`.
    """

    def __init__(self) -> None:
        self.scripts: list[bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]] = []
        self.bodies: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.models = response("200 OK", {"object": "list", "data": []})
        self.asked: list[str] = []
        """The paths of what was asked without a body."""
        self.open = self.connections = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                if head.startswith("GET "):
                    self.asked.append(head.split()[1])
                    writer.write(self.models)
                    await writer.drain()
                    continue
                length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length"))
                self.bodies.append(json.loads(await reader.readexactly(int(length.split(":")[1]))))
                self.heads.append(head)
                script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                if isinstance(script, bytes):
                    writer.write(script)
                    await writer.drain()
                else:
                    await script(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """The server, not yet told what to answer."""
    made = Upstream()
    yield made
    await made.close()


Connect = Callable[..., Awaitable[OpenAIEngine]]


@pytest_asyncio.fixture
async def connect(upstream: Upstream, tmp_path: Path) -> AsyncIterator[Connect]:
    """Makes a started engine for that server."""
    address, made = await upstream.start(), []

    async def engine(suffix: str = "", **options: Any) -> OpenAIEngine:
        config = EngineConfig(kind="openai", url=address + suffix, slots=10, **options)
        one = OpenAIEngine.from_config(Model(name="up", slug="up", engine=config), tmp_path)
        made.append(one)
        await one.start()
        return one

    yield engine
    for one in made:
        await one.close()


async def text(engine: OpenAIEngine, request: Generate = QUESTION, request_id: str = "r") -> str:
    """The text of the whole answer."""
    return "".join([event.text async for event in engine.generate(request_id, request) if isinstance(event, Delta)])


async def error_of(engine: OpenAIEngine, request: Generate = QUESTION) -> tuple[EngineError, str]:
    """The error that a generation ends with, and what was said before."""
    said = ""
    try:
        async for event in engine.generate("r", request):
            said += event.text if isinstance(event, Delta) else ""
    except EngineError as error:
        return error, said
    pytest.fail(f"no error after {said!r}")
