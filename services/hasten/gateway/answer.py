"""One answer in our own events on its way to one reader, each with the id from which any gateway can go on with it."""

import asyncio
import contextlib
from typing import Any

import msgspec

from hasten.bus import Bus
from hasten.chat_stream import ChatStream
from hasten.gateway.feed import Feed
from hasten.gateway.ledger import Ledger
from hasten.gateway.mark import Mark
from hasten.gateway.rates import Grant
from hasten.messages.chat import CHAT, Chunk, Done, Ping
from hasten.messages.failure import RETRYABLE, Failed, Failure
from hasten.messages.streamed import Opened, Streamed
from hasten.topics import random_id

PAUSED = RETRYABLE
"""Failures that are not the answer's: another gateway can go on after them."""


class Numbered(msgspec.Struct, frozen=True):
    """An event as it goes out, and its id."""

    id: str
    event: Any


class Answer:
    """Reads one stream (`start`) and hands on what comes (`take`). A reader who is lost is waited for (`leave`): the
    orchestrator goes on for its grace time; one that wants no more stops the generation (`cancel`)."""

    def __init__(
        self, bus: Bus, ledger: Ledger, tenant: str, stream: ChatStream, opened: Opened, grant: Grant, limit: int
    ) -> None:
        self._bus, self._ledger, self.tenant, self._stream = bus, ledger, tenant, stream
        self._opened, self._grant = opened, grant
        self.request_id, self.writer = stream.request_id, random_id()
        self._feed = Feed(limit)
        self._raw: list[tuple[Any, Mark]] = []
        self._written = self._over = False
        self._last = Mark(request_id=self.request_id, chunks=opened.chunks, notes=opened.notes)
        self.doubtful = False
        """Whether the place to go on from is only its reader's word."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to read."""
        self._task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        try:
            async for event in self._stream:
                if isinstance(event, Ping) or self._feed.ended:
                    continue
                event = self._refused(event) if self.doubtful else event
                await self._write(event)
                self._put(event)
        except Failed as failed:
            self.end(failed.failure)
        except Exception as error:
            self.end(Failure(code="internal", detail=f"the gateway failed ({type(error).__name__})"))
            raise

    def _refused(self, event: Any) -> Any:
        if isinstance(event, Failure) and event.code == "incomplete" and not self._written:
            return Failure(code="bad_request", detail="the answer has no such event", param="Last-Event-ID")
        return event

    def _put(self, event: Any) -> None:
        self._grant.see(event)
        last = isinstance(event, Done | Failure)
        paused = isinstance(event, Failure) and event.code in PAUSED
        mark = self._mark(end=last and not paused)
        self._over = last
        self._feed.put(event)
        if last or not self._feed.ended:
            self._raw.append((event, mark))

    def _mark(self, *, end: bool = False) -> Mark:
        return Mark(request_id=self.request_id, chunks=self._stream.chunks, notes=self._stream.notes, end=end)

    async def _write(self, event: Any) -> None:
        """Writes an event down, and before the first one what was asked; a request that was refused leaves no trace."""
        if isinstance(event, Failure) and (event.code in PAUSED or not self._written):
            return
        if not self._written:
            self._written = True
            await self._ledger.write(self.tenant, self.request_id, Streamed(writer=self.writer, opened=self._opened))
        at = self._mark()
        entry = Streamed(
            writer=self.writer, event=event, chunks=at.chunks, notes=at.notes, replica=self._stream.replica
        )
        await self._ledger.write(self.tenant, self.request_id, entry)

    async def take(self, timeout_s: float | None) -> list[Numbered]:
        """The events that wait, neighbouring text joined; empty when none comes within `timeout_s`."""
        events = await self._feed.take(timeout_s)
        raw, self._raw = self._raw, []
        starts = _starts(events, [event for event, _ in raw])
        found: list[Numbered] = []
        for event, end in zip(events, [*starts[1:], len(raw)], strict=False):
            if end and end <= len(raw):
                self._last = raw[end - 1][1]
            found.append(Numbered(str(self._last), event))
        return found

    @property
    def over(self) -> bool:
        """Whether its last event has come."""
        return self._over

    def end(self, failure: Failure) -> None:
        """Ends what is handed on with a failure that is not the answer's."""
        self._feed.put(failure)

    async def leave(self) -> None:
        """The reader is gone and may come back, here or elsewhere: the generation goes on for a while."""
        await self._stop()
        await self._stream.leave()

    async def cancel(self) -> None:
        """Nobody wants the rest: the generation is stopped."""
        await self._stop()
        if not self._over:
            with contextlib.suppress(Exception):
                await self._bus.cancel(CHAT, self.request_id, tenant=self.tenant)
        await self._stream.aclose()

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._grant.end()


def _starts(events: list[Any], raw: list[Any]) -> list[int]:
    """Which of the raw events each one begins with; the length for one that is none of them."""
    starts, at = list[int](), 0
    for event in events:
        while at < len(raw) and not _begins(event, raw[at]):
            at += 1
        starts.append(at)
    return starts


def _begins(event: Any, raw: Any) -> bool:
    return event is raw or (isinstance(event, Chunk) and isinstance(raw, Chunk) and event.seq == raw.seq)
