"""Bodies at the HTTP edge: those that are no request, too large, too slow or without end."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest_asyncio
from scripted_edge import HELLO, Edge, edge

from hasten.bus import Bus

CHAT_PATH = "/v1/chat/completions"


@pytest_asyncio.fixture
async def made(bus: Bus) -> AsyncIterator[Edge]:
    async with edge(bus, max_body_bytes=100_000) as made:
        yield made


async def test_bodies_that_are_no_request_are_400(made: Edge) -> None:
    hidden = json.dumps({**HELLO, "metadata": "DEEP"}).replace('"DEEP"', "[" * 100 + "]" * 100).encode()
    nested = [b'{"model":"m","response_format":' + b"[" * n + b"]" * n + b"}" for n in (100, 4000, 25000)]
    schema: object = {"type": "string"}
    for _ in range(800):
        schema = {"properties": {"a": schema}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": "SCHEMA"}}]
    deep = '{"properties":{"a":' * 800 + "{}" + "}}" * 800
    with_tools = json.dumps({**HELLO, "tools": tools}).replace('"SCHEMA"', deep).encode()
    bodies = [
        *nested,
        hidden,
        with_tools,
        b"[" * 18000 + b"]" * 18000,
        b"[" * 65 + b'"' + b'\\"' * 40_000,
        b"",
        b"[]",
        b'"x"',
        b"{",
        b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}',
        b'{"messages": NaN}',
        json.dumps(HELLO).encode() + b"}",
    ]
    for body in bodies:
        for path in (CHAT_PATH, "/v1/embeddings"):
            response = await made.http.post(path, content=body)
            assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")
    assert made.heard == []
    assert (await made.post(HELLO)).status_code == 200


async def test_nested_json_inside_a_string_is_only_text(made: Edge) -> None:
    arguments = "[" * 5000 + "]" * 5000
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}]
    turns = [*HELLO["messages"], {"role": "assistant", "tool_calls": calls}]
    assert (await made.post({**HELLO, "messages": turns})).status_code == 200


async def test_a_body_over_the_cap_is_413_however_it_comes(made: Edge) -> None:
    async def in_parts(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b"x" * 10_000

    whole = await made.http.post(CHAT_PATH, content=b"x" * 100_001)
    chunked = await made.http.post(CHAT_PATH, content=in_parts(11))
    for response in (whole, chunked):
        assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")
    fits = {**HELLO, "messages": [{"role": "user", "content": "x" * 90_000}]}
    assert (await made.post(fits)).status_code == 200


async def test_a_body_without_end_is_refused_while_it_comes(made: Edge) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
    head = f"POST {CHAT_PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {made.key}\r\n"
    writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())

    async def pour() -> None:
        while True:
            writer.write(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
            await writer.drain()

    pouring = asyncio.ensure_future(pour())
    status = await asyncio.wait_for(reader.readline(), 20)
    pouring.cancel()
    await asyncio.gather(pouring, return_exceptions=True)
    writer.close()
    assert status.startswith(b"HTTP/1.1 413")


async def test_who_asks_before_sending_too_much_is_told_not_to(made: Edge) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
    head = f"POST {CHAT_PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {made.key}\r\n"
    writer.write(f"{head}Content-Length: 200000\r\nExpect: 100-continue\r\n\r\n".encode())
    assert (await asyncio.wait_for(reader.readline(), 20)).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_a_body_that_does_not_come_is_408(bus: Bus) -> None:
    async with edge(bus, read_timeout_s=0.2) as made:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        head = (
            f"POST {CHAT_PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {made.key}\r\nContent-Length: 20\r\n\r\n{{"
        )
        writer.write(head.encode())
        assert (await asyncio.wait_for(reader.readline(), 20)).startswith(b"HTTP/1.1 408")
        writer.close()


async def test_a_message_that_nats_would_not_take_is_413(bus: Bus) -> None:
    async with edge(bus, max_body_bytes=4_000_000) as made:
        response = await made.post({**HELLO, "messages": [{"role": "user", "content": "x" * 1_500_000}]})
        assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")
