"""The entries used last, decoded and in memory, so that an exact hit asks no store; bounded by number and by bytes."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from hasten.cache.domain import Entry

SOME = 256
"""Entries looked at without a pause."""


class HotSet:
    """Entries by (tenant, key), the least recently used forgotten first.

    An entry is compared with the store again after `for_s`, since another replica may have replaced it; times are
    monotonic seconds given by the caller.
    """

    def __init__(self, entries: int, size: int, for_s: float) -> None:
        self._most, self._most_bytes, self._for_s = entries, size, for_s
        self._kept: OrderedDict[tuple[str, str], tuple[Entry, float, int]] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, tenant: str, key: str, now_s: float) -> Entry | None:
        """The entry, unless it is not here or has been for too long."""
        found = self._kept.get((tenant, key))
        if found is None:
            return None
        entry, since_s, _ = found
        if now_s - since_s > self._for_s:
            self.drop(tenant, key)
            return None
        self._kept.move_to_end((tenant, key))
        return entry

    def put(self, entry: Entry, now_s: float) -> None:
        """Keeps an entry, in place of an older one of its key."""
        self.drop(entry.tenant, entry.key)
        size = entry.size
        if size > self._most_bytes // 8:
            return
        self._kept[entry.tenant, entry.key] = (entry, now_s, size)
        self.size += size
        while len(self._kept) > self._most or self.size > self._most_bytes:
            self.drop(*next(iter(self._kept)))

    def drop(self, tenant: str, key: str) -> None:
        """Forgets an entry."""
        gone = self._kept.pop((tenant, key), None)
        if gone is not None:
            self.size -= gone[2]

    async def keep_only(self, wanted: Callable[[Entry], bool]) -> None:
        """Forgets every entry that is not wanted, some at a time: all 4,096 at once take up to 40 ms."""
        keys = list(self._kept)
        for start in range(0, len(keys), SOME):
            for key in keys[start : start + SOME]:
                found = self._kept.get(key)
                if found is not None and not wanted(found[0]):
                    self.drop(*key)
            await asyncio.sleep(0)
