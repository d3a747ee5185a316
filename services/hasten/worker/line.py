"""The line before an engine: who comes next, and the figures that a router balances by."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator


class Place:
    """One request's place, in the line and then in a slot; `spoken` is set by its holder at the first token."""

    def __init__(self, rank: tuple[int, int], tokens: int) -> None:
        loop = asyncio.get_running_loop()
        self.rank, self.tokens, self.since = rank, tokens, loop.time()
        self.spoken = False
        self.turn: asyncio.Future[None] = loop.create_future()


class Line:
    """Lets `slots` requests in at once, higher priority first, then by arrival; one that is cancelled leaves it."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._waiting: list[Place] = []
        self._holding: set[Place] = set()
        self._arrivals = itertools.count()

    @property
    def active(self) -> int:
        """How many hold a slot."""
        return len(self._holding)

    @property
    def queued(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def queued_tokens(self) -> int:
        """The prompt tokens that wait, estimated."""
        return sum(one.tokens for one in self._waiting)

    def oldest_ms(self) -> float:
        """How long ago the first of those came that have no token yet, in line or in a slot; 0 without any."""
        now = asyncio.get_running_loop().time()
        silent = (one for one in (*self._waiting, *self._holding) if not one.spoken)
        return max(((now - one.since) * 1000 for one in silent), default=0.0)

    def ahead(self, priority: int) -> int:
        """How many would be served before a newcomer of this priority."""
        return sum(1 for one in self._waiting if one.rank[0] <= -priority)

    @contextlib.asynccontextmanager
    async def place(self, tokens: int, priority: int) -> AsyncIterator[Place]:
        """Waits for a slot and holds it."""
        one = Place((-priority, next(self._arrivals)), tokens)
        if self.active < self.slots:
            self._holding.add(one)
        else:
            await self._wait(one)
        try:
            yield one
        finally:
            self._leave(one)

    async def _wait(self, one: Place) -> None:
        self._waiting.append(one)
        try:
            await one.turn
        except asyncio.CancelledError:
            if one.turn.cancelled():
                self._waiting.remove(one)
            else:
                self._leave(one)
            raise

    def _leave(self, one: Place) -> None:
        """Hands the slot to the next in line, or frees it."""
        self._holding.remove(one)
        waiting = (other for other in self._waiting if not other.turn.done())
        first = min(waiting, key=lambda other: other.rank, default=None)
        if first is not None:
            self._waiting.remove(first)
            self._holding.add(first)
            first.turn.set_result(None)
