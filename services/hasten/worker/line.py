"""The line before an engine: who comes next, and the figures that a router balances by."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator


class _Waiting:
    def __init__(self, rank: tuple[int, int], tokens: int) -> None:
        loop = asyncio.get_running_loop()
        self.rank, self.tokens, self.since = rank, tokens, loop.time()
        self.turn: asyncio.Future[None] = loop.create_future()


class Line:
    """Lets `slots` requests in at once, higher priority first, then by arrival; one that is cancelled leaves it."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.active = 0
        self._waiting: list[_Waiting] = []
        self._arrivals = itertools.count()

    @property
    def queued(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def queued_tokens(self) -> int:
        """The prompt tokens that wait, estimated."""
        return sum(one.tokens for one in self._waiting)

    def oldest_ms(self) -> float:
        """How long the one that came first has been waiting."""
        now = asyncio.get_running_loop().time()
        return max(((now - one.since) * 1000 for one in self._waiting), default=0.0)

    def ahead(self, priority: int) -> int:
        """How many would be served before a newcomer of this priority."""
        return sum(1 for one in self._waiting if one.rank[0] <= -priority)

    @contextlib.asynccontextmanager
    async def place(self, tokens: int, priority: int) -> AsyncIterator[None]:
        """Waits for a slot and holds it."""
        if self.active < self.slots:
            self.active += 1
        else:
            await self._wait(_Waiting((-priority, next(self._arrivals)), tokens))
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, one: _Waiting) -> None:
        self._waiting.append(one)
        try:
            await one.turn
        except asyncio.CancelledError:
            if one.turn.cancelled():
                self._waiting.remove(one)
            else:
                self._leave()
            raise

    def _leave(self) -> None:
        """Hands the slot to the next in line, or frees it."""
        first = min((one for one in self._waiting if not one.turn.done()), key=lambda one: one.rank, default=None)
        if first is None:
            self.active -= 1
            return
        self._waiting.remove(first)
        first.turn.set_result(None)
