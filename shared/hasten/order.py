"""Who comes next of those who wait: tenants in turn by the work they ask for, a tenant's own by priority and age; pure.

Start-time fair queueing (Goyal, Vin and Cheng, 1996) over tenants instead of packets. A tenant's turn is a virtual time
that its work moves on; the least is served next. Who comes anew begins at the present virtual time, so that hundreds of
one tenant are no delay for another's first.
"""

from bisect import insort
from collections import OrderedDict
from typing import Any

AGEING_S = 2.0
"""A step of priority is worth this much waiting, so that what is low is served some day."""
MOST_PRIORITY = 10
"""Priorities beyond this, up or down, count as this one."""
REMEMBERED = 1024
"""Tenants without anyone in line whose turn is kept, the one that left last longest."""


class Waiter:
    """Somebody in line: `cost` is the work asked for, in any unit; `due` is when it came, moved by its priority."""

    def __init__(self, tenant: str, cost: float, due: float, what: Any = None) -> None:
        self.tenant, self.cost, self.due, self.what = tenant, cost, due, what


def due_of(now: float, priority: int) -> float:
    """The place among its tenant's of one that comes at `now` (s): a step of priority is as if `AGEING_S` earlier."""
    return now - AGEING_S * max(-MOST_PRIORITY, min(MOST_PRIORITY, priority))


class Order:
    """The line. Priority orders a tenant's own requests only: nobody gets more than a fair share by asking for it."""

    def __init__(self) -> None:
        self._lines: dict[str, list[Waiter]] = {}
        self._turns: dict[str, float] = {}
        self._away: OrderedDict[str, float] = OrderedDict()
        self._now = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def waiting(self, tenant: str) -> int:
        """How many of this tenant wait."""
        return len(self._lines.get(tenant, ()))

    @property
    def waiters(self) -> list[Waiter]:
        """All who wait, in no order."""
        return [one for line in self._lines.values() for one in line]

    @property
    def tenants(self) -> int:
        """How many tenants have somebody in line."""
        return len(self._lines)

    def add(self, one: Waiter) -> None:
        """Puts somebody in line."""
        if one.tenant not in self._lines:
            self._turns[one.tenant] = max(self._now, self._away.pop(one.tenant, 0.0))
        insort(self._lines.setdefault(one.tenant, []), one, key=lambda other: other.due)

    def remove(self, one: Waiter) -> None:
        """Lets somebody leave the line; one who is not in it is nothing."""
        line = self._lines.get(one.tenant, [])
        if one in line:
            line.remove(one)
            self._left(one.tenant, line)

    def next(self) -> Waiter | None:
        """Takes out who comes next, None when nobody waits."""
        if not self._lines:
            return None
        tenant = min(self._lines, key=lambda name: (self._turns[name], self._lines[name][0].due))
        line = self._lines[tenant]
        one = line.pop(0)
        self._now = self._turns[tenant]
        self._turns[tenant] += one.cost
        self._left(tenant, line)
        return one

    def _left(self, tenant: str, line: list[Waiter]) -> None:
        if line:
            return
        del self._lines[tenant]
        turn = self._turns.pop(tenant)
        if not self._lines:
            self._away.clear()
        elif turn > self._now:
            self._away[tenant] = turn
            if len(self._away) > REMEMBERED:
                self._away.popitem(last=False)

    def settle(self, tenant: str, difference: float) -> None:
        """Corrects a tenant's turn when the work turns out to be this much more than the cost that was given."""
        kept = self._turns if tenant in self._turns else self._away
        if tenant in kept:
            kept[tenant] = max(self._now, kept[tenant] + difference)

    def ahead(self, tenant: str, due: float) -> float:
        """The work that is served before a newcomer, if nobody else comes."""
        line = self._lines.get(tenant, [])
        own = sum(one.cost for one in line if one.due <= due)
        turn = self._turns.get(tenant, max(self._now, self._away.get(tenant, 0.0))) + own
        return own + sum(self._before(name, turn) for name in self._lines if name != tenant)

    def _before(self, tenant: str, turn: float) -> float:
        """The work of one tenant that is served before another's virtual time `turn`."""
        at = self._turns[tenant]
        work = 0.0
        for one in self._lines[tenant]:
            if at + work > turn:
                break
            work += one.cost
        return work
