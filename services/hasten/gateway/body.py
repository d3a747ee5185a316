"""Reads the body of a request under a cap, whatever it says of its own length, and decodes it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
from starlette.types import Receive

from hasten.codec import MAX_NESTING, nesting
from hasten.messages.failure import Failed, Failure

LINGER = 4
"""A body of up to this many times the cap is read and thrown away, so that its sender gets to see the refusal."""
_LARGE = 32 * 1024
"""Longer bodies are decoded in a thread, to leave the event loop free."""


class Gone(Exception):
    """The caller has gone: nobody is left to answer."""


async def read_object(headers: Mapping[str, str], receive: Receive, *, limit: int, timeout_s: float) -> dict[str, Any]:
    """The JSON object in the body. Raises Failed(too_large | bad_request | request_timeout), and Gone."""
    try:
        async with asyncio.timeout(timeout_s):
            raw = await _read(headers, receive, limit)
    except TimeoutError:
        detail = f"the body did not arrive within {timeout_s:g} s"
        raise Failed.of(Failure(code="request_timeout", detail=detail)) from None
    return await asyncio.to_thread(decoded, raw) if len(raw) > _LARGE else decoded(raw)


async def _read(headers: Mapping[str, str], receive: Receive, limit: int) -> bytes:
    declared = int(length) if (length := headers.get("content-length", "")).isdecimal() else 0
    too_large = Failed("too_large", f"the body has more bytes than max_body_bytes allows, which is {limit}")
    if declared > limit * LINGER or (declared > limit and "expect" in headers):
        raise too_large
    parts, size = [], 0
    async for part in _parts(receive):
        size += len(part)
        if size <= limit:
            parts.append(part)
        elif size > limit * LINGER:
            break
    if size > limit:
        raise too_large
    return b"".join(parts)


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        yield message.get("body", b"")
        more = message.get("more_body", False)


def decoded(raw: bytes) -> dict[str, Any]:
    """The JSON object in a text; raises Failed(bad_request)."""
    if nesting(raw) > MAX_NESTING:
        raise Failed("bad_request", f"the body is nested deeper than max_nesting allows, which is {MAX_NESTING} levels")
    try:
        plain = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Failed("bad_request", "the body is not valid JSON") from None
    if not isinstance(plain, dict):
        raise Failed("bad_request", "the body must be a JSON object")
    return plain
