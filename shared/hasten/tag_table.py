"""The last change of every tag, bounded whatever changes: what answers that were read before it depend on; pure."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from hasten.changes import ALL, EVERYBODY, above

MAX_TAGS = 200_000
FORGOTTEN = 1000
"""Tags forgotten at a time: a pause of well under a millisecond."""
T = TypeVar("T")


class _Group:
    """The last changes of one tenant's tags of one table, the latest last; what was forgotten is below `floor`."""

    __slots__ = ("floor", "last")

    def __init__(self) -> None:
        self.last: dict[str, int] = {}
        self.floor = 0

    def concerning(self, tag: str) -> int:
        """The last change that an answer with this tag must heed."""
        return max(self.floor, self.last.get(tag, 0), self.last.get(above(tag), 0))

    @property
    def newest(self) -> int:
        """Its last change, known or forgotten."""
        return max([self.floor, *self.last.values()])


class _Owner:
    """One tenant's tables, the one that changed last at the end; `size` counts their tags. Nothing read before `floor`
    is fresh for this tenant, who may have forgotten all of its tables."""

    __slots__ = ("floor", "groups", "size")

    def __init__(self) -> None:
        self.groups: OrderedDict[str, _Group] = OrderedDict()
        self.floor = self.size = 0

    @property
    def newest(self) -> int:
        """Its last change, known or forgotten."""
        return max([self.floor, *(group.newest for group in self.groups.values())])


class TagTable:
    """The last sequence at which each (tenant, tag) changed, bounded.

    Beyond `limit` tags it is the tenant with the most of them that forgets: of its largest table the oldest, and what
    depends on that table and was read before those changes is not fresh; where no table of it is large, its oldest
    tables, and nothing of the tenant that was read before their changes is. So a burst over one table costs the others
    nothing, and one of a tenant no other tenant. Only when no tenant has many the oldest are forgotten for all, which
    raises `floor`: nothing read before it is fresh. Changes for all tenants are under the tenant `*`. `newest` is the
    last change of all.
    """

    def __init__(self, limit: int = MAX_TAGS, floor: int = 0) -> None:
        self._limit, self.floor = limit, floor
        self._batch = max(1, min(FORGOTTEN, limit // 4))
        self.newest = 0
        self._size = 0
        self._owners: OrderedDict[str, _Owner] = OrderedDict()

    def change(self, tenant: str, tag: str, sequence: int) -> None:
        """Records a change; a lower sequence than the known one changes nothing."""
        if sequence > self.newest:
            self.newest = sequence
        owner, table = _latest(self._owners, tenant, _Owner), tag.partition(":")[0]
        group = _latest(owner.groups, table, _Group)
        before = group.last.pop(tag, None)
        group.last[tag] = sequence if before is None or sequence > before else before
        if before is None:
            owner.size += 1
            self._size += 1
            if self._size > self._limit:
                self._forget()

    def _forget(self) -> None:
        """Looking for the largest costs as much as there are, so many tags go with each look."""
        owner = max(self._owners.values(), key=lambda owner: owner.size)
        if owner.size < 2 * self._batch:
            self._forget_owners()
            return
        largest = max(owner.groups.values(), key=lambda group: len(group.last))
        gone = self._batch
        if len(largest.last) >= 2 * self._batch:
            for tag in list(islice(largest.last, self._batch)):
                largest.floor = max(largest.floor, largest.last.pop(tag))
        else:
            gone = 0
            while gone < self._batch:
                _, oldest = owner.groups.popitem(last=False)
                owner.floor = max(owner.floor, oldest.newest)
                gone += len(oldest.last)
        owner.size -= gone
        self._size -= gone

    def _forget_owners(self) -> None:
        wanted = self._size - self._batch
        while self._size > wanted:
            _, oldest = self._owners.popitem(last=False)
            self.floor = max(self.floor, oldest.newest)
            self._size -= oldest.size

    def fresh(self, tenant: str, tags: Iterable[str], read_seq: int) -> bool:
        """Whether nothing that an answer with these tags depends on has changed since it was read at `read_seq`.

        A tag is also looked up one level above itself: see `hasten.changes.expanded`.
        """
        if read_seq < self.floor:
            return False
        if read_seq >= self.newest:
            return True
        return all(self.last(tenant, tag) <= read_seq for tag in (*tags, ALL))

    def last(self, tenant: str, tag: str) -> int:
        """The last known change that an answer of this tenant with this tag must heed, 0 if none."""
        table, found = tag.partition(":")[0], 0
        for name in (tenant, EVERYBODY):
            if (owner := self._owners.get(name)) is not None:
                group = owner.groups.get(table)
                found = max(found, owner.floor, 0 if group is None else group.concerning(tag))
        return found


def _latest(known: OrderedDict[str, T], name: str, make: Callable[[], T]) -> T:
    """What has this name, made if need be and now the last in line."""
    found = known.get(name)
    if found is None:
        found = known[name] = make()
    else:
        known.move_to_end(name)
    return found
