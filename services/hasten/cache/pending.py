"""Which tags wait to be swept and when, coalesced: a tag is there once, however often it changed; pure."""

from collections import OrderedDict

from hasten.changes import ALL

MANY = 1000
"""Tags of one table in one window; beyond that all answers of the table go, in one deletion instead of hundreds."""
MOST = 100_000
"""Tags in all; beyond that the table that has waited longest is left to its expiry."""
UNCOUNTED = frozenset({"document", "entry", "model", "collection", "reject", ALL})
"""What is no table of rows: a collection of documents is evicted by its own tag as well."""


class Due:
    """The tags of one tenant's table and the sequence each changed at last, to be swept from `at_s` on."""

    __slots__ = ("at_s", "last", "whole")

    def __init__(self, at_s: float) -> None:
        self.at_s, self.last, self.whole = at_s, dict[str, int](), False


class Pending:
    """Collects changed tags by (tenant, table); times are monotonic seconds given by the caller."""

    def __init__(self, many: int = MANY, most: int = MOST) -> None:
        self._many, self._most = many, most
        self._due: OrderedDict[tuple[str, str], Due] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, tenant: str, tag: str, sequence: int, at_s: float) -> None:
        """Notes a change that is to be swept at `at_s`, or earlier if its table is."""
        table = tag.partition(":")[0]
        due = self._due.get((tenant, table))
        if due is None:
            due = self._due[tenant, table] = Due(at_s)
        elif at_s < due.at_s:
            due.at_s = at_s
        noted = table if due.whole else tag
        before = due.last.get(noted)
        if before is None:
            self._size += 1
        if before is None or sequence > before:
            due.last[noted] = sequence
        if len(due.last) > self._many and table not in UNCOUNTED:
            self._size += 1 - len(due.last)
            due.whole, due.last = True, {table: max(due.last.values())}
        while self._size > self._most:
            _, left = self._due.popitem(last=False)
            self._size -= len(left.last)

    def next_s(self) -> float | None:
        """When the next table is due."""
        return min((due.at_s for due in self._due.values()), default=None)

    def take(self, now_s: float) -> dict[str, list[tuple[int, str]]]:
        """What is due, as (sequence, tag) by tenant, in the order of the sequences; it is no longer pending."""
        found: dict[str, list[tuple[int, str]]] = {}
        for key, due in list(self._due.items()):
            if due.at_s <= now_s:
                del self._due[key]
                self._size -= len(due.last)
                found.setdefault(key[0], []).extend((sequence, tag) for tag, sequence in due.last.items())
        return {tenant: sorted(changes) for tenant, changes in found.items()}
