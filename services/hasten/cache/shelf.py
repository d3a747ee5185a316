"""Where entries are: the vector store, and in front of it the hot set of this replica."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from hasten.cache.domain import INDEXES, Entry, compartment, entry_id, payload_of, read_payload
from hasten.cache.hot import HotSet
from hasten.cache.past import Past
from hasten.cache.settings import Settings
from hasten.messages.cache import EntrySummary
from hasten.vectors.store import Match, Point, StoreError, Vector, VectorStore, Where

BATCH = 64
"""Entries read and deleted at a time when their tenants have to be told apart."""
NAMES = ["owner", "key"]
"""What is read of an entry that goes."""
TAGS = 128
"""Tags in one filter."""
SAMPLE = 1000
"""Entries whose last use tells how old the oldest are."""
TIDYING_S = 30.0
"""How long one call to the store may take that tidies and that nobody waits for."""


class Shelf:
    """Entries by key and by vector. Methods raise StoreError, also when one call to the store takes longer than it may:
    `store_timeout_s`, or TIDYING_S in `expire`, `shrink` and a patient `remove`. Opening and closing have no limit."""

    def __init__(self, store: VectorStore, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self.hot = HotSet(settings.hot_entries, settings.hot_bytes, settings.hot_s)
        self.past = Past()
        self._used: set[str] = set()

    async def open(self) -> None:
        """Opens the collection; raises StoreError naming both sizes when its vectors have another width."""
        await self._store.open(self._settings.dim, INDEXES)

    async def get(self, tenant: str, key: str, usable: Callable[[Entry], bool]) -> Entry | None:
        """The entry of a key: from memory if that one is usable, else as the store has it."""
        warm = self.hot.get(tenant, key, time.monotonic())
        if warm is not None and usable(warm):
            return self._touched(warm)
        found = await self._within(self._store.get([entry_id(tenant, key)]))
        entry = read_payload(found[0].id, found[0].payload) if found else None
        if entry is None or (entry.tenant, entry.key) != (tenant, key):
            return None
        self.hot.put(entry, time.monotonic())
        self.past.keep(entry)
        return self._touched(entry)

    def _touched(self, entry: Entry) -> Entry:
        self._used.add(entry.id)
        return entry

    async def near(
        self, vector: Vector, tenant: str, partition: str, era: str, now_ms: float
    ) -> list[tuple[Entry, float]]:
        """The nearest living entries of this compartment and their similarities, best first.

        Only when a dead one is among them the search is repeated with a filter on the time, which costs as much again.
        """
        inside = {"tenant": compartment(tenant, partition, era)}
        found = await self._search(vector, Where(equal=dict(inside)))
        if any(match.payload.get("expires_ms", 0) <= now_ms for match in found):
            found = await self._search(vector, Where(equal=dict(inside), above={"expires_ms": now_ms}))
        entries = [(read_payload(match.id, match.payload), match.score) for match in found]
        wanted = (tenant, partition, era)
        return [(one, score) for one, score in entries if one and (one.tenant, one.partition, one.era) == wanted]

    async def around(self, vector: Vector, tenant: str) -> list[tuple[Entry, float]]:
        """The nearest entries of the tenant in any compartment and their similarities, best first."""
        found = await self._search(vector, Where(equal={"owner": tenant}))
        entries = [(read_payload(match.id, match.payload), match.score) for match in found]
        return [(one, score) for one, score in entries if one and one.tenant == tenant]

    async def _search(self, vector: Vector, where: Where) -> list[Match]:
        found: list[Match] = await self._within(self._store.search(vector, where, self._settings.candidates))
        return found

    def served(self, entry: Entry) -> None:
        """Keeps an entry that was found by meaning at hand."""
        self.hot.put(self._touched(entry), time.monotonic())

    async def put(self, entry: Entry, vector: Vector | None) -> None:
        """Stores an entry in place of an older one of its key."""
        await self._within(self._store.upsert([Point(id=entry.id, vector=vector, payload=payload_of(entry))]))
        self.hot.put(entry, time.monotonic())
        self.past.keep(entry)

    async def _within(self, work: Any, limit_s: float | None = None) -> Any:
        try:
            async with asyncio.timeout(self._settings.store_timeout_s if limit_s is None else limit_s):
                return await work
        except TimeoutError:
            raise StoreError("the vector store took too long") from None

    async def find(self, tenant: str, ids: list[str]) -> list[Entry]:
        """The entries of this tenant among these ids."""
        points = await self._within(self._store.get(ids))
        entries = [read_payload(point.id, point.payload) for point in points]
        return [entry for entry in entries if entry is not None and entry.tenant == tenant]

    async def list(self, where: Sequence[Where], limit: int, now_ms: float) -> tuple[int, list[EntrySummary]]:
        """How many entries match one of these filters, and up to `limit` of them without their answers."""
        there, listed, counted = 0, list[EntrySummary](), list[Any]()
        for one in where:
            uncounted = msgspec.structs.replace(one, unequal={"marks": list(counted)}) if counted else one
            there += await self._within(self._store.count(uncounted))
            if len(listed) < limit:
                found = await self._within(self._store.scroll(uncounted, limit - len(listed)))
                entries = (read_payload(point.id, point.payload) for point in found)
                listed += [_summary(entry, now_ms) for entry in entries if entry]
            counted += cast(list[Any], one.equal.get("marks", []))
        return there, listed

    async def remove(self, where: Where, gone: Counter[str], most: int = 2**53, *, patient: bool = False) -> None:
        """Deletes what matches, up to `most` entries, and adds to `gone` how many went so far, by tenant."""
        limit_s = TIDYING_S if patient else None
        while most > 0 and (found := await self._within(self._store.scroll(where, min(most, BATCH), NAMES), limit_s)):
            deleted = await self._within(self._store.delete(ids=[point.id for point in found]), limit_s)
            for point in found:
                self.hot.drop(str(point.payload.get("owner")), str(point.payload.get("key")))
            if not deleted:
                break
            gone.update(str(point.payload.get("owner")) for point in found)
            if len(found) < min(most, BATCH):
                break
            most -= len(found)

    async def expire(self, now_ms: float) -> int:
        """Deletes what has expired."""
        expired = Where(below={"expires_ms": now_ms + 1})
        return int(await self._within(self._store.delete(where=expired), TIDYING_S))

    async def shrink(self, now_ms: float) -> tuple[int, Counter[str]]:
        """Notes what was used and, above the bound, deletes what was used least recently, 5% more than needed.

        Returns how many entries there are and how many were deleted, by tenant. Ids are hashes, so the first of them
        are a fair sample of the ages. Many entries have the same age, that of the note, so the surplus is counted out.
        """
        used, self._used = list(self._used), set()
        await self._within(self._store.set_payload(used, {"used_ms": int(now_ms)}), TIDYING_S)
        there, most = await self._within(self._store.count(), TIDYING_S), self._settings.max_entries
        if there <= most:
            return there, Counter()
        surplus, gone = there - int(0.95 * most), Counter[str]()
        found = await self._within(self._store.scroll(Where(), SAMPLE, ["used_ms"]), TIDYING_S)
        sample = sorted(int(point.payload.get("used_ms", 0)) for point in found)
        cut = sample[min(len(sample) - 1, int(surplus / there * len(sample)))]
        for bound in (cut, cut + 1):
            await self.remove(Where(below={"used_ms": bound}), gone, surplus - gone.total(), patient=True)
        return there - gone.total(), gone

    async def close(self) -> None:
        """Closes the store."""
        await self._store.close()


def _summary(entry: Entry, now_ms: float) -> EntrySummary:
    age_s = round(max(0.0, now_ms - entry.created_ms) / 1000, 3)
    return EntrySummary(entry_id=entry.id, text=entry.text, tags=entry.tags, age_s=age_s)


def stale_where(tenant: str | None, tags: Sequence[str] | None, sequence: int) -> list[Where]:
    """Filters for the entries of a tenant (None: of all) that a change of these tags (None: of everything) outdates:
    those read before its `sequence`."""
    equal: dict[str, Any] = {} if tenant is None else {"owner": tenant}
    below = {"read_seq": float(sequence)}
    if tags is None:
        return [Where(equal=equal, below=below)]
    slices: list[Any] = [list(tags[start : start + TAGS]) for start in range(0, len(tags), TAGS)]
    return [Where(equal=equal | {"marks": part}, below=below) for part in slices]
