"""A bounded number of places and a bounded line before them: first come, first served."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator


class Limit:
    """At most `places` at once and `waiting` more in line; one that is cancelled in the line leaves it."""

    def __init__(self, places: int, waiting: int = 0) -> None:
        self._places, self._waiting = places, waiting
        self._taken = 0
        self._line: deque[asyncio.Future[None]] = deque()

    @property
    def full(self) -> bool:
        """Whether one more would have to be refused."""
        return self._taken >= self._places and len(self._line) >= self._waiting

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Waits for a place and holds it."""
        if self._taken < self._places:
            self._taken += 1
        else:
            await self._wait()
        try:
            yield
        finally:
            self._leave()

    async def _wait(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with contextlib.suppress(ValueError):
                    self._line.remove(turn)
            else:
                self._leave()
            raise

    def _leave(self) -> None:
        """Hands the place to the first in line who still waits, or frees it."""
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._taken -= 1
