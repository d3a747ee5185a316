"""One request in the hands of a service: who asks, until when, and the stream of replies to it."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from typing import Any

import nats.errors
from nats.aio.msg import Msg

from hasten.bus import Bus
from hasten.deadline import DEADLINE, DEFAULT_TIMEOUT_S, REQUEST_ID, RESUMABLE, TENANT, now_ms
from hasten.messages.chat import Accepted, Chunk, Done, Ping
from hasten.messages.failure import Code, Failed, Failure
from hasten.topics import Topic, checked, random_id
from hasten.tracing import Span

JOIN_S = 0.010
LONGEST_S = 24 * 3600.0
"""A deadline further away counts as this far."""


class Call:
    """One request being handled: who asks, until when, and (for streams) where the replies go."""

    def __init__(self, bus: Bus, topic: Topic, msg: Msg, tokens: dict[str, str], task: asyncio.Task[Any]) -> None:
        headers = msg.headers or {}
        self._bus, self._reply = bus, msg.reply
        self.topic = topic
        self.tokens = tokens
        self.headers = headers
        self.tenant = tokens.get("tenant") or _named("tenant", headers.get(TENANT))
        self.request_id = _named("request id", headers.get(REQUEST_ID)) or random_id()
        self.deadline_ms = _deadline_of(headers)
        self.resumable = RESUMABLE in headers
        self.replica = ""
        self.span: Span | None = None
        """The span of this request where there are traces."""
        self.failed: str | None = None
        """The code of the failure that ended its stream."""
        self.admitted = asyncio.Event()
        self.ended = False
        self.chunks = 0
        self.sent_at = 0.0
        self.reason: Code = "cancelled"
        self._accepted = False
        self._task: asyncio.Task[Any] | None = task
        self._watch: tuple[str, Callable[[], None]] | None = None

    def remaining_s(self) -> float:
        """Seconds until the deadline, never below 0."""
        return max(0.0, (self.deadline_ms - now_ms()) / 1000)

    async def accept(self) -> None:
        """Says once that the request was admitted; it goes out before any other event."""
        if not self._accepted:
            self._accepted = True
            await self.send(Accepted(request_id=self.request_id, replica=self.replica))

    async def send(self, event: Any) -> None:
        """Publishes one event of the stream. The handler is cancelled when nobody reads any more."""
        if self.ended:
            return
        if not isinstance(event, Ping):
            await self.accept()
        if self._watch is None:
            self._watch = self._bus.watch_reader(lambda: self.cancel("disconnected"))
        self.sent_at = time.monotonic()
        self.ended = isinstance(event, (Done, Failure))
        try:
            await self._bus.send(self._reply, event, reply=self._watch[0])
        except Failed:
            self.ended = False
            raise
        if isinstance(event, Chunk):
            if self.span is not None and not self.chunks:
                self.span.event("gen_ai.first_chunk")
            self.chunks += 1
        elif isinstance(event, Failure):
            self.failed = event.code

    def cancel(self, reason: Code = "cancelled") -> None:
        """Stops the handler; the stream ends with a Failure of this code."""
        if self._task is not None and not self._task.done():
            self.reason = reason
            self._task.cancel()

    def close(self) -> bool:
        """Ends the work on the request, which can no longer be stopped; returns whether the last word has been said."""
        ended, self.ended, self._task = self.ended, True, None
        if self._watch is not None:
            self._watch[1]()
        return ended


def _named(kind: str, given: str | None) -> str:
    return checked(kind, given) if given else ""


def _deadline_of(headers: dict[str, str]) -> float:
    given = headers.get(DEADLINE)
    if given is None:
        return now_ms() + DEFAULT_TIMEOUT_S * 1000
    try:
        deadline_ms = float(given)
    except ValueError:
        deadline_ms = math.nan
    if not math.isfinite(deadline_ms):
        raise Failed("bad_request", f"{DEADLINE} must be unix milliseconds", param=DEADLINE)
    return min(deadline_ms, now_ms() + LONGEST_S * 1000)


async def ping(call: Call) -> None:
    """Fills the silence: in the line with pings, then with `accepted`, later with pings again.

    The first event says accepted as well: within ten milliseconds both go out in one write, which halves the cost of a
    hit.
    """
    every_s = call.topic.ping_s
    with contextlib.suppress(nats.errors.Error):
        while not call.admitted.is_set():
            try:
                async with asyncio.timeout(every_s * 0.75):
                    await call.admitted.wait()
            except TimeoutError:
                await call.send(Ping())
        await asyncio.sleep(JOIN_S)
        await call.accept()
        while True:
            silent_s = time.monotonic() - call.sent_at
            if silent_s >= every_s * 0.7:
                await call.send(Ping())
                silent_s = 0.0
            await asyncio.sleep(every_s * 0.75 - silent_s)
