"""What a caller may send, and how slowly: refused by the name of the limit, before it costs anything."""

import asyncio
import json
import socket
from typing import Any

import pytest
from scripted_edge import HELLO, Edge, edge, say

from hasten.bus import Bus

PATHS = ("/v1/chat/completions", "/v1/stream", "/v1/embeddings")


@pytest.mark.parametrize("opened", ["[", '{"a":'])
async def test_deep_json_is_refused_by_the_limits_name(bus: Bus, opened: str) -> None:
    deep = opened * 70 + "1" + {"[": "]", '{"a":': "}"}[opened] * 70
    body = json.dumps({**HELLO, "metadata": "DEEP"}).replace('"DEEP"', deep)
    async with edge(bus) as made:
        for path in PATHS:
            response = await made.http.post(path, content=body)
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (400, "bad_request")
            assert "max_nesting" in error["message"]
        assert made.heard == []


async def test_a_long_body_is_refused_by_the_limits_name(bus: Bus) -> None:
    async with edge(bus, max_body_bytes=1000) as made:
        for path in PATHS:
            response = await made.http.post(path, json={**HELLO, "metadata": "x" * 2000})
            assert response.status_code == 413
            assert "max_body_bytes" in response.json()["error"]["message"]
        assert made.heard == []


async def raw(made: Edge, *parts: bytes) -> bytes:
    """What a connection is answered that sends these parts and then nothing more."""
    connection = socket.create_connection(("127.0.0.1", made.port))
    for part in parts:
        connection.sendall(part)  # it is there before the gateway, which runs in this loop, begins to count
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Slow: "],
        [b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /healthz HTTP/1.1\r\nX-Slow: "],
    ],
)
async def test_headers_that_do_not_end_close_the_connection(bus: Bus, parts: list[bytes]) -> None:
    async with edge(bus, read_timeout_s=0.3) as made:
        answer = await raw(made, *parts)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 200")


async def test_a_body_that_does_not_end_is_a_timeout(bus: Bus) -> None:
    async with edge(bus, read_timeout_s=0.3) as made:
        head = f"POST {{}} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {made.key}\r\nContent-Length: 500\r\n\r\n{{{{"
        for path in PATHS:
            answer = await raw(made, head.format(path).encode())
            assert answer.startswith(b"HTTP/1.1 408"), answer
        assert made.heard == []


async def test_headers_that_are_too_long_are_refused(bus: Bus) -> None:
    async with edge(bus, max_header_bytes=4096) as made:
        answer = await raw(made, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 8000)
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))
        fine = await made.http.get("/healthz", headers={"X-Long": "x" * 3000})
        assert fine.status_code == 200


async def test_a_stream_takes_longer_than_its_headers_may(bus: Bus) -> None:
    async def slow(_: Any, call: Any) -> None:
        await asyncio.sleep(0.6)
        await say(call, "late")

    async with edge(bus, read_timeout_s=0.3) as made:
        made.script = slow
        body = json.dumps(HELLO).encode()
        head = f"POST {PATHS[0]} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {made.key}\r\nConnection: close\r\n"
        answer = await raw(made, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert answer.startswith(b"HTTP/1.1 200")


async def test_without_a_valid_key_nothing_is_read_or_told(bus: Bus) -> None:
    async with edge(bus, max_body_bytes=1000) as made:
        wrong = {"Authorization": "Bearer hk-wrong"}
        answers = []
        for body in (b"", b"{", b"[" * 5000, b"x" * 100_000, json.dumps(HELLO).encode()):
            for path in PATHS:
                for headers in (wrong, {**wrong, "Last-Event-ID": "x"}, {**wrong, "X-Tenant-Id": "acme"}):
                    response = await made.http.post(path, content=body, headers=headers)
                    answers.append((response.status_code, response.json()["error"]["message"]))
        assert len(set(answers)) == 1
        assert answers[0][0] == 401
        for path in ("/v1/stream/mine", "/v1/stream/none"):
            for method in ("GET", "DELETE"):
                response = await made.http.request(method, path, headers=wrong)
                assert (response.status_code, response.json()["error"]["message"]) == answers[0]
