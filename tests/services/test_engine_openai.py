"""The engine for OpenAI-compatible servers against a server that does everything wrong, byte for byte."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from upstream import DONE, EVENTS, LAST, QUESTION, WELL, Connect, Upstream, data, error_of, piece, response, said, text

from hasten.worker.engines import End


async def test_a_good_answer_over_a_kept_connection(upstream: Upstream, connect: Connect) -> None:
    upstream.scripts = [WELL]
    engine = await connect(upstream_model="gpt-x")
    for _ in range(3):
        assert await text(engine) == "Hello"
        await engine.drain()
    assert upstream.connections == 1
    body = upstream.bodies[0]
    assert body["model"] == "gpt-x"
    assert body["messages"] == [{"role": "user", "content": "My IBAN is NO00 1234"}]
    assert (body["max_tokens"], body["stream"], body["stream_options"]) == (40, True, {"include_usage": True})
    assert "temperature" not in body


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (piece(b": still working\n\n") + said("ok") + said("", "stop") + DONE + LAST, "ok"),
        (said("a") + said("", "stop") + LAST, "a"),
        (piece(b"data: : still working\n\n") + said("ok") + said("", "stop") + DONE + LAST, "ok"),
        (piece(b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\ndata: [DONE]\n\n') + LAST, "a"),
        (
            piece(b'data: {"choices":[{"delta":{"content":"a}{b"}}]}{"choices":[{"delta":{"content":"c"}}]}\n\n')
            + said("", "stop")
            + LAST,
            "a}{bc",
        ),
        (
            piece('data: {"choices":[{"delta":{"content":"Ö"}'.encode()[:-3])
            + piece('data: {"choices":[{"delta":{"content":"Ö"}'.encode()[-3:] + b',"finish_reason":"stop"}]}\r\n\r\n')
            + LAST,
            "Ö",
        ),
        (said("a", "stop") + DONE + said("never") + LAST, "a"),
        (said("x", "length") + data({"choices": [], "usage": None}) + DONE + LAST, "x"),
    ],
)
async def test_odd_but_whole_streams_are_read_whole(
    upstream: Upstream, connect: Connect, stream: bytes, said: str
) -> None:
    upstream.scripts = [EVENTS + stream]
    assert await text(await connect()) == said


@pytest.mark.parametrize(
    ("stream", "code", "said"),
    [
        (said("Half an ans") + LAST, "incomplete", "Half an ans"),
        (said("Half an ans") + DONE + LAST, "incomplete", "Half an ans"),
        (said("", "stop") + DONE + LAST, "incomplete", ""),
        (said("Half an ans") + said("", "error") + DONE + LAST, "incomplete", "Half an ans"),
        (LAST, "incomplete", ""),
        (said("a") + data({"error": {"message": "overloaded"}}) + DONE + LAST, "upstream", "a"),
        (said("a") + piece(b"event: error\ndata: all is lost\n\n") + LAST, "upstream", "a"),
        (said("a") + piece(b'data: {"choices":[{"del\n\n') + LAST, "upstream", "a"),
        (said("a") + piece(b"data: \xff\n\n") + LAST, "upstream", "a"),
        (said("a") + data({"choices": [{"index": 0, "delta": "b"}]}) + said("", "stop") + DONE + LAST, "upstream", "a"),
    ],
)
async def test_broken_answers_are_failures_with_what_was_said(
    upstream: Upstream, connect: Connect, stream: bytes, code: str, said: str
) -> None:
    upstream.scripts = [EVENTS + stream]
    error, heard = await error_of(await connect())
    assert (error.code, heard) == (code, said)
    upstream.scripts = [WELL]
    assert await text(await connect()) == "Hello"


async def test_a_budget_spent_on_thinking_is_an_empty_answer_of_finish_length(
    upstream: Upstream, connect: Connect
) -> None:
    upstream.scripts = [EVENTS + said("", "length") + DONE + LAST]
    events = [event async for event in (await connect()).generate("r", QUESTION)]
    assert [event.finish_reason for event in events if isinstance(event, End)] == ["length"]


async def test_a_connection_cut_in_the_middle_is_upstream(upstream: Upstream, connect: Connect) -> None:
    async def cut(writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS + said("Half"))
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.transport.abort()

    upstream.scripts = [cut]
    error, heard = await error_of(await connect())
    assert (error.code, heard, len(upstream.bodies)) == ("upstream", "Half", 1)


async def test_a_server_that_does_not_stream_is_understood(upstream: Upstream, connect: Connect) -> None:
    whole = {"choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]}
    upstream.scripts = [response("200 OK", whole)]
    assert await text(await connect()) == "Hello"


@pytest.mark.parametrize(
    ("answer", "code", "retry_after_ms"),
    [
        (response("429 Too Many", {"error": {}}, "Retry-After: 7\r\n"), "overloaded", 7000),
        (response("503 Busy", {"error": {}}, "Retry-After: 2\r\n"), "upstream", 2000),
        (response("502 Bad Gateway", {}), "upstream", 1000),
        (response("400 Bad", {"error": {"type": "invalid_request_error", "param": "top_p"}}), "bad_request", None),
        (response("400 Bad", {"error": {"code": "context_length_exceeded"}}), "context_overflow", None),
        (response("404 Not Found", {"error": {}}), "upstream", 1000),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n<html>hi\n", "incomplete", None),
    ],
)
async def test_refusals_have_the_right_code(
    upstream: Upstream, connect: Connect, answer: bytes, code: str, retry_after_ms: int | None
) -> None:
    upstream.scripts = [answer]
    error, _ = await error_of(await connect())
    assert (error.code, error.retry_after_ms) == (code, retry_after_ms)


async def test_a_kept_connection_that_was_dropped_is_tried_once_more(upstream: Upstream, connect: Connect) -> None:
    async def drop(writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    engine = await connect()
    upstream.scripts = [WELL, drop, WELL]
    assert await text(engine) == "Hello"
    assert await text(engine) == "Hello"
    assert len(upstream.bodies) == 3
    upstream.scripts = [drop]
    error, _ = await error_of(engine)
    assert error.code == "upstream"
    assert len(upstream.bodies) == 5


async def test_waiting_has_an_end_at_every_stage(upstream: Upstream, connect: Connect) -> None:
    def stuck(first: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
        async def script(writer: asyncio.StreamWriter) -> None:
            writer.write(first)
            await asyncio.sleep(60)

        return script

    for first, shown in ((b"", ""), (EVENTS, ""), (EVENTS + said("a"), "a")):
        for limit_s in (0.3, 3.0, 9.0):
            engine = await connect(first_token_timeout_s=limit_s, between_tokens_timeout_s=limit_s)
            upstream.scripts = [stuck(first)]
            error, heard = await error_of(engine)
            assert error.code == "upstream"
            if heard == shown:
                break
        assert heard == shown
    async with asyncio.timeout(20):
        await engine.drain()


async def _slow(writer: asyncio.StreamWriter) -> None:
    writer.write(EVENTS)
    for _ in range(40):
        writer.write(said("word "))
        await writer.drain()
        await asyncio.sleep(0.005)
    writer.write(said("", "stop") + DONE + LAST)
    await writer.drain()


async def test_cancelling_twice_in_a_row_leaves_no_connection_behind(upstream: Upstream, connect: Connect) -> None:
    upstream.scripts = [_slow]
    engine = await connect()
    for at in range(30):
        task = asyncio.create_task(text(engine, request_id=f"r{at}"))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    upstream.scripts = [WELL]
    assert await text(engine) == "Hello"
    await engine.drain()
    async with asyncio.timeout(20):
        while upstream.open > 1:
            await asyncio.sleep(0.01)


async def test_cancelling_at_random_leaves_no_connection_behind(upstream: Upstream, connect: Connect) -> None:
    chance, upstream.scripts = random.Random(3), [_slow]
    engine = await connect()
    slots = asyncio.Semaphore(10)
    finished = 0

    async def ask(at: int) -> None:
        nonlocal finished
        async with slots:
            task = asyncio.create_task(text(engine, request_id=f"r{at}"))
            if chance.random() < 0.5:
                await asyncio.sleep(chance.random() * 0.2)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            finished += not task.cancelled()

    await asyncio.gather(*(ask(at) for at in range(100)))
    assert finished > 30
    async with asyncio.timeout(20):
        await engine.drain()
        assert await asyncio.gather(*(text(engine, request_id=f"s{at}") for at in range(10))) == ["word " * 40] * 10
        await engine.close()
        while upstream.open:
            await asyncio.sleep(0.01)
