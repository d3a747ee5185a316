"""Several answers to one request: as many chats, each with a stream of its own on the bus, read as one."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Self

import msgspec

from hasten.chat_stream import ChatStream
from hasten.messages.chat import Chunk, Done, Note
from hasten.messages.failure import Failed, Failure


class Chosen(msgspec.Struct, frozen=True):
    """An event of one of the answers, which count from 0: a Chunk, or the Done after which it says no more."""

    choice: int
    event: Chunk | Done


def bodies(body: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The chat bodies of so many answers to one. None is read from a cache, shared or stored, and where a seed is given
    each has its own, the next one up."""
    if count == 1:
        return [body]
    seed = body.get("seed")
    seeds = [{} if seed is None else {"seed": seed + at} for at in range(count)]
    return [{**body, "cache": {"mode": "off"}, **seeded} for seeded in seeds]


def summed(ends: Sequence[Done]) -> Done:
    """The end of all answers: every token that was generated, and the prompt, which is one, once."""
    first = ends[0]
    details: dict[str, Any] = {}
    for name, value in (pair for end in ends for pair in (end.usage.completion_tokens_details or {}).items()):
        details[name] = details.get(name, 0) + value if isinstance(value, int | float) else value
    usage = msgspec.structs.replace(
        first.usage,
        completion_tokens=sum(end.usage.completion_tokens for end in ends),
        completion_tokens_details=details or None,
    )
    return msgspec.structs.replace(first, usage=usage, chunks=sum(end.chunks for end in ends))


class Choices:
    """The streams of several answers as one, in the manner of a ChatStream: Chosen events as they come, the notes of
    the first, and one Done, when all have ended, or the first Failure. `aclose` stops those that have not ended."""

    def __init__(self, streams: Sequence[ChatStream]) -> None:
        self._streams = streams
        self._events: asyncio.Queue[tuple[int, Any]] = asyncio.Queue()
        self._readers: list[asyncio.Task[None]] = []
        self._ends: dict[int, Done] = {}
        self._over = False

    async def open(self) -> Self:
        """Sends the requests; raises Failed when one of them could not be sent."""
        try:
            for at, stream in enumerate(self._streams):
                await stream.open()
                self._readers.append(asyncio.get_running_loop().create_task(self._read(at, stream)))
        except BaseException:
            await self.aclose()
            raise
        return self

    async def _read(self, at: int, stream: ChatStream) -> None:
        try:
            async for event in stream:
                self._events.put_nowait((at, event))
        except Failed as failed:
            self._events.put_nowait((at, failed.failure))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        while not self._over:
            if len(self._ends) == len(self._streams):
                self._over = True
                return summed([self._ends[at] for at in range(len(self._streams))])
            at, event = await self._events.get()
            if isinstance(event, Failure):
                self._over = True
                return event
            if isinstance(event, Done):
                self._ends[at] = event
            if isinstance(event, Chunk | Done):
                return Chosen(at, event)
            if not at or not isinstance(event, Note):
                return event
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Leaves every answer; whoever still makes one is told to stop."""
        self._over = True
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        for stream in self._streams[: len(self._readers) + 1]:
            with contextlib.suppress(Exception):
                await stream.aclose()
