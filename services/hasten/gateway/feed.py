"""Events on their way to one reader: joined while it is slow, bounded in bytes, and never dropped in silence."""

import asyncio
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from hasten.gateway.choices import Chosen
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
    event = event.event if isinstance(event, Chosen) else event
    if not isinstance(event, Chunk):
        return _OVERHEAD_BYTES
    calls = sum(len(str(plain)) for plain in (*(event.tool_calls or ()), *(event.logprobs or ())))
    return _OVERHEAD_BYTES + len(event.text) + len(event.reasoning) + calls


def _kind(event: Any) -> str:
    if not isinstance(event, Chunk) or event.tool_calls or (event.text and event.reasoning):
        return "alone"
    return "reasoning" if event.reasoning else "text"


def _joined(run: list[Chunk]) -> Chunk:
    text, reasoning = "".join(one.text for one in run), "".join(one.reasoning for one in run)
    logprobs = [token for one in run for token in one.logprobs or ()] or None
    return Chunk(seq=run[0].seq, text=text, reasoning=reasoning, logprobs=logprobs)


def coalesced(events: list[Any]) -> list[Any]:
    """The same events with neighbouring chunks of text, or of reasoning, as one chunk; tool-call deltas stay apart, and
    so do the answers, where there are several."""
    if len(events) < 2:
        return events
    joined: list[Any] = []
    for several, group in groupby(events, lambda event: isinstance(event, Chosen)):
        run = list(group)
        joined += _each(run) if several else _neighbours(run)
    return joined


def _each(events: list[Chosen]) -> list[Chosen]:
    said: dict[int, list[Any]] = {}
    for one in events:
        said.setdefault(one.choice, []).append(one.event)
    return [Chosen(choice, event) for choice, of_it in said.items() for event in _neighbours(of_it)]


def _neighbours(events: Iterable[Any]) -> list[Any]:
    joined: list[Any] = []
    for kind, group in groupby(events, _kind):
        run = list(group)
        if kind == "alone" or len(run) == 1:
            joined += run
        else:
            joined.append(_joined(run))
    return joined
