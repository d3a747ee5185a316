"""What a program over HTTP sees of its answer: chunks, failures before and in the stream, and a server that stalls."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from loadtest.arrivals import steady
from loadtest.http_caller import HttpCaller
from loadtest.open_loop import open_loop
from loadtest.price import Price
from loadtest.sample import Sample

Serve = Callable[[asyncio.StreamWriter], Awaitable[None]]
USAGE = {"prompt_tokens": 40, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 16}}


def frame(delta: dict[str, str], **more: object) -> bytes:
    return b"data: " + json.dumps({"model": "m", "choices": [{"delta": delta}], **more}).encode() + b"\n\n"


def head(status: str = "200 OK", kind: str = "text/event-stream", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}\r\n".encode()


@asynccontextmanager
async def server(serve: Serve) -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in asked.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(length)
        await serve(writer)
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def asked(serve: Serve) -> Sample:
    async with server(serve) as url, HttpCaller.connect(url, prices={"m": Price(0.01, 0.1)}, texts=True) as caller:
        return await caller.ask({"messages": [{"role": "user", "content": "hello"}]}, time.perf_counter())


async def test_an_answer_is_read_to_its_end() -> None:
    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(head(more="x-hasten-cache: semantic\r\n"))
        writer.write(frame({"role": "assistant", "content": "one"}) + b": ping\n" + frame({"content": " two"}))
        writer.write(frame({}) + frame({}, usage=USAGE, choices=[]) + b"data: [DONE]\n\n")

    sample = await asked(serve)
    assert (sample.outcome, sample.text, sample.chunks, sample.model) == ("done", "one two", 2, "m")
    assert (sample.cache, sample.prompt_tokens, sample.completion_tokens, sample.cached_tokens) == (
        "semantic",
        40,
        3,
        16,
    )
    assert sample.cost == 0
    assert sample.saved == (40 * 0.01 + 3 * 0.1) / 1000
    assert sample.ttft_ms is not None
    assert 0 < sample.ttft_ms <= sample.total_ms


async def test_a_refusal_has_the_code_of_its_body_or_of_its_status() -> None:
    async def refuse(writer: asyncio.StreamWriter) -> None:
        writer.write(head("429 Too Many", "application/json") + b'{"error": {"code": "tenant_share"}}')

    async def break_down(writer: asyncio.StreamWriter) -> None:
        writer.write(head("503 Unavailable", "text/html") + b"<h1>sorry</h1>")

    assert (await asked(refuse)).outcome == "tenant_share"
    assert (await asked(break_down)).outcome == "unavailable"


async def test_a_stream_that_breaks_off_is_no_answer() -> None:
    async def cut(writer: asyncio.StreamWriter) -> None:
        writer.write(head() + frame({"content": "one"}))

    async def fail(writer: asyncio.StreamWriter) -> None:
        writer.write(head() + frame({"content": "one"}) + b'data: {"error": {"code": "upstream"}}\n\ndata: [DONE]\n\n')

    assert ((await asked(cut)).outcome, (await asked(cut)).chunks) == ("incomplete", 1)
    assert (await asked(fail)).outcome == "upstream"


async def test_nobody_there_is_an_outcome() -> None:
    async with HttpCaller.connect("http://127.0.0.1:1") as caller:
        sample = await caller.ask({"messages": []}, time.perf_counter())
    assert (sample.outcome, sample.ttft_ms) == ("disconnected", None)


async def test_a_server_that_stalls_is_asked_on_and_its_stall_is_in_every_later_sample() -> None:
    """It answers nobody until the last request of all has come: over as many connections as that takes."""
    arrivals, there, stalled = steady(100, 0.3), 0, asyncio.Event()

    async def stall(writer: asyncio.StreamWriter) -> None:
        nonlocal there
        there += 1
        if there == len(arrivals):
            stalled.set()
        await stalled.wait()
        writer.write(head() + frame({"content": "one"}) + b"data: [DONE]\n\n")

    async with server(stall) as url, HttpCaller.connect(url) as caller:
        samples = await open_loop(arrivals, lambda _, due: caller.ask({"messages": []}, due))
    assert [sample.outcome for sample in samples] == ["done"] * len(arrivals)
    last = arrivals[-1]
    for sample in samples:
        assert sample.ttft_ms is not None
        assert sample.ttft_ms >= (last - sample.at_s) * 1000, "nothing was said before the last one was due"
