"""The line before an engine: who comes next, and the figures that a router balances by."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from hasten.limit import SHARE, of_one_tenant
from hasten.order import Order, Waiter, due_of
from hasten.worker.pace import wait_ms


class Place:
    """One request's place, in the line and then in a slot; `spoken` is set by its holder at the first token.

    `waited` says whether it got its slot later than it came; `cost_ms` is how long it is expected to hold a slot,
    `entered` (loop time) since when it does.
    """

    def __init__(self, tenant: str, tokens: int, cost_ms: float) -> None:
        loop = asyncio.get_running_loop()
        self.tenant, self.tokens, self.cost_ms = tenant, tokens, cost_ms
        self.since = self.entered = loop.time()
        self.spoken = self.waited = False
        self.turn: asyncio.Future[None] = loop.create_future()


class Line:
    """Lets `slots` requests in at once and `waiting` more wait, of one tenant at most `share` of these.

    Tenants come in turn, by the time that theirs are expected to hold a slot; each one's own by priority and age. One
    that is cancelled leaves the line.
    """

    def __init__(self, slots: int, waiting: int, share: float = SHARE) -> None:
        self.slots = slots
        self._most = of_one_tenant(waiting, share)
        self._order = Order()
        self._holding: set[Place] = set()

    @property
    def active(self) -> int:
        """How many hold a slot."""
        return len(self._holding)

    @property
    def queued(self) -> int:
        """How many wait."""
        return len(self._order)

    @property
    def _waiting(self) -> list[Place]:
        return [one.what for one in self._order.waiters]

    @property
    def queued_tokens(self) -> int:
        """The prompt tokens that wait, estimated."""
        return sum(place.tokens for place in self._waiting)

    def oldest_ms(self) -> float:
        """How long ago the first of those came that have no token yet, in line or in a slot; 0 without any."""
        now = asyncio.get_running_loop().time()
        silent = (one for one in (*self._waiting, *self._holding) if not one.spoken)
        return max(((now - one.since) * 1000 for one in silent), default=0.0)

    def late_ms(self, first_ms: Callable[[int], float]) -> float:
        """How much longer one has been in a slot without a token than `first_ms` says of so many tokens; at least 0."""
        now = asyncio.get_running_loop().time()
        silent = (one for one in self._holding if not one.spoken)
        return max((max(0.0, (now - one.entered) * 1000 - first_ms(one.tokens)) for one in silent), default=0.0)

    def wait_ms(self, tenant: str, priority: int) -> float:
        """How long a newcomer would wait for a slot, by what those here were expected to take; 0 with a free one."""
        now = asyncio.get_running_loop().time()
        busy = [max(0.0, one.cost_ms - (now - one.entered) * 1000) for one in self._holding]
        ahead = self._order.ahead(tenant, due_of(now, priority))
        return wait_ms(ahead, busy, self.slots - self.active)

    def crowded_by(self, tenant: str) -> bool:
        """Whether this tenant has as many in line as one may."""
        return self.active >= self.slots and self._order.waiting(tenant) >= self._most

    def share_ms(self, tenant: str) -> float:
        """How often one of this tenant's leaves the line: each of its turns comes after one of every other tenant."""
        costs = [one.cost for one in self._order.waiters if one.tenant == tenant]
        return sum(costs) / max(1, len(costs)) * max(1, self._order.tenants) / self.slots

    @contextlib.asynccontextmanager
    async def place(self, tenant: str, tokens: int, cost_ms: float, priority: int) -> AsyncIterator[Place]:
        """Waits for a slot and holds it; what it took more or less than expected counts for the tenant's next turn."""
        one = Place(tenant, tokens, cost_ms)
        if self.active < self.slots:
            self._holding.add(one)
        else:
            await self._wait(one, priority)
        try:
            yield one
        finally:
            held_ms = (asyncio.get_running_loop().time() - one.entered) * 1000
            self._order.settle(tenant, held_ms - cost_ms)
            self._leave(one)

    async def _wait(self, one: Place, priority: int) -> None:
        waiter = Waiter(one.tenant, one.cost_ms, due_of(one.since, priority), one)
        self._order.add(waiter)
        one.waited = True
        try:
            await one.turn
        except asyncio.CancelledError:
            if one.turn.cancelled():
                self._order.remove(waiter)
            else:
                self._order.settle(one.tenant, -one.cost_ms)
                self._leave(one)
            raise

    def _leave(self, one: Place) -> None:
        """Hands the slot to the next in line, or frees it."""
        self._holding.remove(one)
        while (waiter := self._order.next()) is not None:
            first: Place = waiter.what
            if not first.turn.done():
                first.entered = asyncio.get_running_loop().time()
                self._holding.add(first)
                first.turn.set_result(None)
                return
            self._order.settle(first.tenant, -first.cost_ms)
