"""The model server behind every gateway that is compared: an OpenAI-compatible simulator that costs next to nothing.

`python -m loadtest.peer_upstream` says its port on stdout and serves until stdin ends. An answer has `max_tokens`
tokens, all at once; to a question that begins with `SLOWLY` they come `STEP_S` apart, and each says when it was written
(monotonic s). `GET /v1/asked` says how many chats there have been.
"""

import asyncio
import sys
import time
from typing import Any, cast

import msgspec

from hasten.run import run_loop

MODEL = "simulated"
SLOWLY = "Slowly"
STEP_S = 0.02
_HEAD_END = b"\r\n\r\n"
_EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
_TOKENS = 8


def piece(raw: bytes) -> bytes:
    """A piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(raw), raw)


def event(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    """One event of a streamed answer."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    plain = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
    return piece(b"data: %b\n\n" % msgspec.json.encode(plain))


def whole(tokens: int) -> dict[str, Any]:
    """An answer that is not streamed."""
    message = {"role": "assistant", "content": "word " * tokens}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 8, "completion_tokens": tokens, "total_tokens": 8 + tokens},
    }


def last_words(body: dict[str, Any]) -> str:
    """The text of the last message, in whichever form."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Upstream:
    """Serves connections and counts chats."""

    def __init__(self) -> None:
        self.asked = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def connect(self) -> "_Connection":
        """A connection that was made."""
        return _Connection(self)

    def begin(self, work: Any) -> None:
        """Goes on with an answer that takes time."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Connection(asyncio.Protocol):
    def __init__(self, upstream: Upstream) -> None:
        self._upstream, self._raw = upstream, b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._raw += data
        while (at := self._raw.find(_HEAD_END)) >= 0:
            head, rest = self._raw[:at].decode("latin-1"), self._raw[at + 4 :]
            length = next((line for line in head.lower().split("\r\n") if line.startswith("content-length:")), ":0")
            size = int(length.partition(":")[2])
            if len(rest) < size:
                return
            self._raw = rest[size:]
            self._answer(head.split(None, 2), rest[:size])

    def _answer(self, words: list[str], raw: bytes) -> None:
        if words[0] != "POST":
            listed = {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "x", "created": 1}]}
            self._json({"asked": self._upstream.asked} if words[1].endswith("/asked") else listed)
            return
        self._upstream.asked += 1
        body = msgspec.json.decode(raw)
        tokens = int(body.get("max_tokens") or body.get("max_completion_tokens") or _TOKENS)
        if not body.get("stream"):
            self._json(whole(tokens))
        elif last_words(body).startswith(SLOWLY):
            self._upstream.begin(self._slowly(tokens))
        else:
            words_of = b"".join(event({"content": "word "}) for _ in range(tokens))
            self._write(_EVENTS + words_of + self._last(tokens))

    async def _slowly(self, tokens: int) -> None:
        began = time.monotonic()
        self._write(_EVENTS)
        for at in range(tokens):
            await asyncio.sleep(max(0.0, began + at * STEP_S - time.monotonic()))
            self._write(event({"content": f"{time.monotonic():.6f} "}))
        self._write(self._last(tokens))

    def _last(self, tokens: int) -> bytes:
        usage = {"prompt_tokens": 8, "completion_tokens": tokens, "total_tokens": 8 + tokens}
        plain = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": []}
        last = piece(b"data: %b\n\n" % msgspec.json.encode(plain | {"usage": usage}))
        return event({}, "stop") + last + piece(b"data: [DONE]\n\n") + b"0\r\n\r\n"

    def _json(self, plain: dict[str, Any]) -> None:
        raw = msgspec.json.encode(plain)
        self._write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(raw), raw)
        )

    def _write(self, raw: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(raw)


async def serve() -> int:
    """Until stdin ends."""
    upstream = Upstream()
    server = await asyncio.get_running_loop().create_server(upstream.connect, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()
    return 0


if __name__ == "__main__":
    sys.exit(run_loop(serve()))
