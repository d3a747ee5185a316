"""A bounded number of places and a bounded line before them, fair between tenants; it knows how soon one comes free."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from hasten.order import Order, Waiter, due_of

SHARE = 0.75
"""The most of a line that one tenant may fill, where tenants meet."""
RETRY_AFTER_MS = 250.0
"""What is advised before a place has ever come free."""
LEAST_RETRY_MS, MOST_RETRY_MS = 10.0, 60_000.0
_SMOOTHING = 0.1


class Limit:
    """At most `places` at once and `waiting` more in line, of one tenant at most `share` of these.

    Tenants come in turn, each one's own in the order in which they came; one that is cancelled in the line leaves it.
    """

    def __init__(self, places: int, waiting: int = 0, *, share: float = 1.0) -> None:
        self._places, self._waiting = places, waiting
        self._most = of_one_tenant(waiting, share)
        self._taken = 0
        self._order = Order()
        self._held_ms: float | None = None
        self._promised = 0.0

    def full(self, tenant: str = "") -> bool:
        """Whether one more of this tenant would have to be refused."""
        if self._taken < self._places:
            return False
        return len(self._order) >= self._waiting or self._order.waiting(tenant) >= self._most

    def retry_after_ms(self) -> int:
        """When one that is refused now may come back: a place comes free every mean time one was held / places.

        Each who is refused gets the next such moment, so that they do not all come back to the same place; nobody is
        sent away for longer than all who are here now take.
        """
        if self._held_ms is None:
            return round(RETRY_AFTER_MS)
        now = asyncio.get_running_loop().time() * 1000
        step = self._held_ms / self._places
        self._promised = min(max(now, self._promised) + step, now + self._held_ms + step * self._waiting)
        return round(max(LEAST_RETRY_MS, min(MOST_RETRY_MS, self._promised - now)))

    @contextlib.asynccontextmanager
    async def place(self, tenant: str = "") -> AsyncIterator[None]:
        """Waits for a place and holds it."""
        if self._taken < self._places:
            self._taken += 1
        else:
            await self._wait(tenant)
        since = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            held_ms = (asyncio.get_running_loop().time() - since) * 1000
            self._held_ms = held_ms if self._held_ms is None else self._held_ms + _SMOOTHING * (held_ms - self._held_ms)
            self._leave()

    async def _wait(self, tenant: str) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        one = Waiter(tenant, 1.0, due_of(loop.time(), 0), turn)
        self._order.add(one)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._order.remove(one)
            else:
                self._leave()
            raise

    def _leave(self) -> None:
        """Hands the place to the next in line who still waits, or frees it."""
        while (one := self._order.next()) is not None:
            if not one.what.done():
                one.what.set_result(None)
                return
            self._order.settle(one.tenant, -one.cost)
        self._taken -= 1


def of_one_tenant(waiting: int, share: float) -> int:
    """How many places of a line one tenant may have: at least one where there is any."""
    return max(1, round(waiting * share))
