"""Events on their way to one reader: joined while it is slow, bounded in bytes, and never dropped in silence."""

import asyncio
from itertools import groupby
from typing import Any

from hasten.messages.chat import Chunk, Done
from hasten.messages.failure import Failure

_OVERHEAD_BYTES = 128
"""What an event costs in memory beside its text."""


class Feed:
    """A queue for one reader. When more than `limit` bytes wait, the answer ends with a Failure that says so."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: list[Any] = []
        self._size = 0
        self._more = asyncio.Event()
        self.ended = False

    def put(self, event: Any) -> None:
        """Adds an event; nothing follows a Done or Failure."""
        if self.ended:
            return
        self._size += _size(event)
        if self._size > self._limit and not isinstance(event, (Done, Failure)):
            event = Failure(code="cancelled", detail=f"the reader left more than {self._limit} bytes of it unread")
        self.ended = isinstance(event, (Done, Failure))
        self._waiting.append(event)
        self._more.set()

    async def take(self, timeout_s: float | None) -> list[Any]:
        """All that waits, neighbouring text joined; empty when nothing comes within `timeout_s`."""
        if not self._waiting:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._more.wait()
            except TimeoutError:
                return []
        taken, self._waiting, self._size = self._waiting, [], 0
        self._more.clear()
        return coalesced(taken)


def _size(event: Any) -> int:
    if not isinstance(event, Chunk):
        return _OVERHEAD_BYTES
    calls = sum(len(str(call)) for call in event.tool_calls or [])
    return _OVERHEAD_BYTES + len(event.text) + len(event.reasoning) + calls


def _kind(event: Any) -> str:
    if not isinstance(event, Chunk) or event.tool_calls or (event.text and event.reasoning):
        return "alone"
    return "reasoning" if event.reasoning else "text"


def _joined(run: list[Chunk]) -> Chunk:
    text, reasoning = "".join(one.text for one in run), "".join(one.reasoning for one in run)
    return Chunk(seq=run[0].seq, text=text, reasoning=reasoning)


def coalesced(events: list[Any]) -> list[Any]:
    """The same events with neighbouring chunks of text, or of reasoning, as one chunk; tool-call deltas stay apart."""
    if len(events) < 2:
        return events
    joined: list[Any] = []
    for kind, group in groupby(events, _kind):
        run = list(group)
        if kind == "alone" or len(run) == 1:
            joined += run
        else:
            joined.append(_joined(run))
    return joined
