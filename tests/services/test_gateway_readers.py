"""Readers that leave, stop reading, or are slow; and a gateway that is drained or stopped while they read."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from nats.aio.msg import Msg
from scripted_edge import HELLO, Edge, chatters, edge, eventually, say

from hasten.bus import Bus
from hasten.messages.chat import CANCEL, CHAT, STOP, Accepted, ChatRequest, Chunk, Done, Nothing
from hasten.messages.failure import Failure
from hasten.service import Call

STREAM = {**HELLO, "stream": True}
PIECE = "x" * 2000


@pytest_asyncio.fixture
async def made(bus: Bus) -> AsyncIterator[Edge]:
    async with edge(bus) as made:
        yield made


class RawClient:
    """A client with a tiny receive buffer, which reads only when it is told to."""

    def __init__(self, made: Edge) -> None:
        self._port, self._key = made.port, made.key
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.setblocking(False)

    async def ask(self, body: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self.socket, ("127.0.0.1", self._port))
        content = json.dumps(body)
        head = f"Host: x\r\nAuthorization: Bearer {self._key}\r\nContent-Length: {len(content)}"
        await loop.sock_sendall(self.socket, f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n\r\n{content}".encode())

    async def read(self, size: int = 65536) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self.socket, size)

    async def read_all(self) -> bytes:
        """Everything up to the end mark, without the chunked framing."""
        got = b""
        while b"0\r\n\r\n" not in got[-16:]:
            part = await self.read()
            assert part, "the server hung up before the end"
            got += part
        return unchunked(got.partition(b"\r\n\r\n")[2])


def unchunked(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        whole, body = whole + rest[:length], rest[length + 2 :]
    return whole


def content(stream: bytes) -> tuple[str, int, list[Any]]:
    """The text of a stream, how many frames it came in, and what followed the text."""
    data = [one.removeprefix("data: ") for one in stream.decode().split("\n\n") if one]
    frames = [json.loads(one) for one in data if one != "[DONE]"]
    texts = [frame["choices"][0]["delta"].get("content") for frame in frames if "choices" in frame]
    rest = [frame["error"]["code"] for frame in frames if "error" in frame] + data[-1:]
    return "".join(text or "" for text in texts), len(texts), rest


@contextlib.asynccontextmanager
async def raw(made: Edge, body: dict[str, Any]) -> AsyncIterator[RawClient]:
    client = RawClient(made)
    try:
        await client.ask(body)
        yield client
    finally:
        client.socket.close()


async def endless(_: ChatRequest, call: Call) -> None:
    seq = 0
    while True:
        await call.send(Chunk(seq=seq, text=PIECE))
        seq += 1
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("body", [HELLO, STREAM], ids=["whole", "streamed"])
async def test_a_caller_that_leaves_stops_the_generation(made: Edge, body: dict[str, Any]) -> None:
    made.script = chatters
    async with raw(made, body):
        await eventually(lambda: len(made.heard) == 1)
        await asyncio.sleep(0.05)
    await eventually(lambda: len(made.stopped) == 1)
    await eventually(lambda: made.gateway.report()["connections"] == 0)
    assert made.stopped == [made.heard[0][1].request_id]


async def test_a_request_that_is_given_up_in_the_same_breath_is_stopped(made: Edge, bus: Bus) -> None:
    """Its CANCEL comes by another subscription and is heard before the request has been taken in."""
    made.script = chatters
    for number in range(5):
        stream = await bus.stream(CHAT, HELLO, tenant="acme", request_id=f"r{number}")
        await stream.aclose()
    await eventually(lambda: len(made.heard) == 5)
    await eventually(lambda: made.orchestrator.active == 0)
    assert sorted(made.stopped) == [f"r{number}" for number in range(5)]


async def test_a_caller_that_leaves_stops_nobody_elses_generation(made: Edge) -> None:
    async def counts(_: ChatRequest, call: Call) -> None:
        for seq in range(60):
            await call.send(Chunk(seq=seq, text=f"{seq} "))
            await asyncio.sleep(0.01)
        await call.send(Done(finish_reason="stop", chunks=60))

    made.script = counts
    staying = asyncio.ensure_future(made.post(STREAM))
    await eventually(lambda: len(made.heard) == 1)
    async with raw(made, STREAM) as leaving:
        await leaving.read()
    text, _, rest = content((await staying).content)
    assert (text, rest) == ("".join(f"{seq} " for seq in range(60)), ["[DONE]"])
    assert len(made.stopped) == 1


async def test_a_cancellation_that_was_lost_is_sent_again(bus: Bus) -> None:
    """This orchestrator is deaf at the moment its reader leaves."""
    replies: list[str] = []
    words: list[float] = []
    heeded: list[str] = []

    async def on_cancel(msg: Msg) -> None:
        words.append(time.monotonic())
        if words[-1] - words[0] > 0.3:
            heeded.append(STOP.parse(msg.subject)["request_id"])
            await bus.send(replies[0], Failure(code="cancelled"))

    async def deaf(msg: Msg) -> None:
        replies.append(msg.reply)
        await bus.send(msg.reply, Accepted(request_id="r"))
        await bus.send(msg.reply, Chunk(seq=0, text="hello"))

    async with edge(bus) as made:
        await made.orchestrator.drain()
        await bus.subscribe(CHAT.subject(tenant="acme"), deaf)
        await bus.subscribe(STOP.pattern, on_cancel)
        async with raw(made, STREAM) as client:
            await client.read()
        await eventually(lambda: bool(heeded))
        await eventually(lambda: made.gateway.report()["chats"] == 0)
    assert len(words) > 1
    assert len(set(heeded)) == 1


async def test_a_reader_that_stops_reading_is_cut_off_and_others_keep_pace(bus: Bus) -> None:
    async with edge(bus, write_timeout_s=1.0) as made:
        made.script = endless
        async with raw(made, STREAM):
            await eventually(lambda: len(made.heard) == 1)
            made.script = chatters
            async with made.http.stream("POST", "/v1/chat/completions", json=STREAM) as other:
                lines = other.aiter_lines()
                await eventually(lambda: len(made.stopped) == 1)
                assert made.stopped == [made.heard[0][1].request_id]
                for _ in range(20):
                    await anext(lines)
            await eventually(lambda: made.gateway.report()["connections"] <= 1)
        await eventually(lambda: made.gateway.report()["chats"] <= 1)


async def test_a_reader_that_closed_its_half_and_stops_reading_is_cut_off(bus: Bus) -> None:
    async with edge(bus, write_timeout_s=1.0) as made:
        made.script = endless
        async with raw(made, STREAM) as client:
            await eventually(lambda: len(made.heard) == 1)
            client.socket.shutdown(socket.SHUT_WR)
            await eventually(lambda: len(made.stopped) == 1)
            await eventually(lambda: made.gateway.report()["connections"] == 0)
            assert made.stopped == [made.heard[0][1].request_id]


async def test_a_finished_answer_that_nobody_reads_does_not_keep_its_connection(bus: Bus) -> None:
    async def long(_: ChatRequest, call: Call) -> None:
        await say(call, *[PIECE] * 150)

    async with edge(bus, write_timeout_s=1.0) as made:
        made.script = long
        async with raw(made, STREAM):
            await eventually(lambda: len(made.heard) == 1)
            await eventually(lambda: made.gateway.report()["connections"] == 0)
            assert made.gateway.report()["chats"] == 0


async def test_a_slow_reader_gets_every_word_in_fewer_frames(made: Edge) -> None:
    words = [f"{number} " + "y" * 500 for number in range(1500)]

    async def talks(_: ChatRequest, call: Call) -> None:
        await say(call, *words)

    made.script = talks
    async with raw(made, STREAM) as client:
        await eventually(lambda: len(made.heard) == 1 and made.heard[0][1].ended)
        await asyncio.sleep(0.2)
        text, frames, rest = content(await client.read_all())
    assert text == "".join(words)
    assert rest == ["[DONE]"]
    assert frames < 1500


async def test_a_reader_that_is_too_slow_gets_what_there_was_and_the_reason(bus: Bus) -> None:
    async with edge(bus, max_unsent_bytes=50_000) as made:
        made.script = endless
        async with raw(made, STREAM) as client:
            await eventually(lambda: len(made.stopped) == 1)
            text, _, rest = content(await client.read_all())
    assert text == "x" * len(text)
    assert text
    assert rest == ["cancelled", "[DONE]"]


async def test_a_drain_finishes_what_was_begun_and_lets_nothing_in(made: Edge) -> None:
    finish = asyncio.Event()

    async def takes_a_while(_: ChatRequest, call: Call) -> None:
        await call.send(Chunk(seq=0, text="begun"))
        await finish.wait()
        await call.send(Chunk(seq=1, text=" and finished"))
        await call.send(Done(finish_reason="stop", chunks=2))

    made.script = takes_a_while
    begun = asyncio.ensure_future(made.post(STREAM))
    await eventually(lambda: len(made.heard) == 1)
    draining = asyncio.ensure_future(made.gateway.drain())
    await asyncio.sleep(0.3)
    with pytest.raises(httpx.ConnectError):
        async with httpx.AsyncClient(base_url=made.gateway.url) as late:
            await late.get("/healthz")
    finish.set()
    await draining
    text, _, rest = content((await begun).content)
    assert (text, rest) == ("begun and finished", ["[DONE]"])


async def test_a_stop_tells_each_reader_why(made: Edge) -> None:
    made.script = chatters
    body, closing = b"", None
    async with made.http.stream("POST", "/v1/chat/completions", json=STREAM) as response:
        async for part in response.aiter_bytes():
            body += part
            if b"1 " in body and closing is None:
                closing = asyncio.ensure_future(made.gateway.close())
    assert closing is not None
    await closing
    text, _, rest = content(body)
    assert text.startswith("0 1 ")
    assert rest == ["draining", "[DONE]"]
    await eventually(lambda: len(made.stopped) == 1)


async def test_a_cancel_of_another_tenant_stops_nothing(made: Edge, bus: Bus) -> None:
    async def waits(_: ChatRequest, call: Call) -> None:
        await asyncio.sleep(0.3)
        await say(call, "mine")

    made.script = waits
    asked = asyncio.ensure_future(made.post(STREAM, **{"x-request-id": "same"}))
    await eventually(lambda: len(made.heard) == 1)
    await bus.publish(CANCEL, Nothing(), tenant="other", request_id="same")
    assert content((await asked).content)[0] == "mine"
