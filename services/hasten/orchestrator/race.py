"""A second attempt beside one that is slow to speak: whoever speaks first goes on, and the other is left at once."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self

from hasten.messages.chat import Chunk, Done
from hasten.messages.failure import Failed, Failure
from hasten.orchestrator.attempt import Attempt
from hasten.orchestrator.hedge import Hedges
from hasten.telemetry import counter

AGAIN_MS = 50.0
"""The least time until a budget that was found empty is looked at again."""
_hedges = counter("hedges_total", "Second attempts at slow first tokens, by what became of them", "outcome")


class Race:
    """A context within that of a started attempt; it leaves what it has begun itself.

    `find` brings another attempt, not yet started, or None when no other worker is free. `second` is that attempt, and
    `failed` are the workers that could not while the other one went on.
    """

    def __init__(self, hedges: Hedges, first: Attempt, find: Callable[[], Awaitable[Attempt | None]]) -> None:
        self._hedges, self._first, self._find = hedges, first, find
        self.second: Attempt | None = None
        self.failed: list[str] = []
        self._tasks: list[asyncio.Task[Any]] = []

    async def winner(self, p95_ms: float) -> Attempt:
        """The attempt to read: it has said something, or it is the first and neither will. `p95_ms` is the measured
        P95 of first-token times, 0 if there is none."""
        first = self._spawn(self._first.first())
        if await self._slow(first, p95_ms):
            second = self._spawn(self._start_second())
            await _one_speaks(first, second)
            return await self._judge(first, second)
        if _spoke(first):
            self._hedges.heard(self._first.routed.slug, self._first.waited_ms)
        return self._first

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)
        return task

    async def _slow(self, first: asyncio.Task[Any], p95_ms: float) -> bool:
        """Waits for the first attempt: True once it is slow and a hedge has been paid for, False when it has spoken."""
        after_ms, denied = self._hedges.after_ms(self._first.routed.slug, p95_ms), False
        if after_ms is None:
            await asyncio.wait([first])
            return False
        while not (await asyncio.wait([first], timeout=after_ms / 1000))[0]:
            if self._hedges.spend():
                return True
            after_ms, denied = max(after_ms, AGAIN_MS), True
        if denied:
            self._count("denied")
        return False

    async def _start_second(self) -> Chunk | Done | Failure | None:
        self.second = await self._find()
        if self.second is None:
            return None
        try:
            await self.second.start()
        except Failed as failed:
            return failed.failure
        return await self.second.first()

    async def _judge(self, first: asyncio.Task[Any], second: asyncio.Task[Any]) -> Attempt:
        if self.second is None:
            self._hedges.give_back()
            self._count("nowhere" if second.done() else "unneeded")
            return self._first
        slug = self._first.routed.slug
        if _spoke(second) and not _spoke(first):
            self._hedges.heard(slug, self._first.waited_ms)
            self._count("won")
            return await self._left(self.second, self._first, first)
        if _spoke(first):
            self._hedges.heard(slug, self._first.waited_ms)
        self._count("failed" if second.done() and not _spoke(second) else "lost")
        return await self._left(self._first, self.second, second)

    async def _left(self, winner: Attempt, other: Attempt, listening: asyncio.Task[Any]) -> Attempt:
        """Leaves the other attempt, or notes that it has failed."""
        if listening.done() and not _spoke(listening):
            self.failed.append(other.routed.worker)
        else:
            listening.cancel()
            await other.aclose()
        return winner

    def _count(self, outcome: str) -> None:
        self._hedges.count(outcome)
        _hedges.labels(outcome).inc()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.second is not None:
            await self.second.aclose()


def _spoke(task: asyncio.Task[Any]) -> bool:
    if not task.done() or task.cancelled() or task.exception() is not None:
        return False
    return isinstance(task.result(), Chunk | Done)


async def _one_speaks(*tasks: asyncio.Task[Any]) -> None:
    """Returns when one of the attempts has spoken, or none of them will."""
    waiting = set(tasks)
    while waiting and not any(_spoke(task) for task in tasks):
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
