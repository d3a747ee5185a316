"""Cleans up behind the guarantees, in the background: what changes made stale, what has expired, what is too much.

Nothing here decides what is served. An entry that a change outdated is refused from the moment the change is known;
deleting it only frees its place.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable

from hasten.cache.domain import Entry
from hasten.cache.figures import Figures
from hasten.cache.settings import Settings
from hasten.cache.shelf import TAGS, Shelf, stale_where
from hasten.changes import ALL, EVERYBODY, Eviction
from hasten.deadline import now_ms
from hasten.telemetry import logger
from hasten.vectors.store import StoreError

log = logger("cache")
MOST_PENDING = 100_000
"""Tags waiting to be swept; of more than that only the newest are, and the rest waits for its expiry."""
Pending = dict[tuple[str, str], int]
Publish = Callable[[str, list[str], int, str, int], Awaitable[None]]
"""Says for a tenant which tags removed how many entries, why, and at which sequence."""


class Sweeper:
    """Collects the tags of changes and deletes their entries in batches, one or two `sweep_s` later."""

    def __init__(
        self, settings: Settings, shelf: Shelf, figures: Figures, wanted: Callable[[Entry], bool], publish: Publish
    ) -> None:
        self._settings, self._shelf, self._figures = settings, shelf, figures
        self._wanted, self._publish = wanted, publish
        self._newer: Pending = {}
        self._older: Pending = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to sweep."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def hear(self, sequence: int, eviction: Eviction) -> None:
        """Notes the tags of a change."""
        for tag in eviction.tags:
            self._newer.pop((eviction.tenant, tag), None)
            self._newer[eviction.tenant, tag] = sequence
        while len(self._newer) > MOST_PENDING:
            del self._newer[next(iter(self._newer))]

    async def _run(self) -> None:
        tidied_s = 0.0
        while True:
            await asyncio.sleep(self._settings.sweep_s)
            tidied_s += self._settings.sweep_s
            try:
                await self.sweep()
                if tidied_s >= self._settings.tidy_s:
                    tidied_s = 0.0
                    await self.tidy()
            except StoreError as error:
                log.warning("the cache was not cleaned up: %s", error)

    async def sweep(self) -> None:
        """Deletes the entries of what was noted before the last sweep: an invalidation, which deletes its own entries
        and tells their number, has done so by then."""
        due, self._older, self._newer = self._older, self._newer, {}
        by_tenant: dict[str, list[tuple[int, str]]] = {}
        for (tenant, tag), sequence in due.items():
            by_tenant.setdefault(tenant, []).append((sequence, tag))
        for tenant, found in by_tenant.items():
            found.sort()
            for start in range(0, len(found), TAGS):
                await self._remove(tenant, found[start : start + TAGS])

    async def _remove(self, tenant: str, changes: list[tuple[int, str]]) -> None:
        """Deletes what was read before the first of these changes: by the others too it is outdated, and nothing that
        was read since is touched."""
        sequence, tags = changes[0][0], [tag for _, tag in changes]
        named = None if ALL in tags else tags
        for where in stale_where(None if tenant == EVERYBODY else tenant, named, sequence):
            gone = Counter[str]()
            try:
                await self._shelf.remove(where, gone, patient=True)
            finally:
                for owner, entries in gone.items():
                    self._figures.gone("invalidated", entries)
                    await self._publish(owner, tags, entries, "change", sequence)

    async def tidy(self) -> None:
        """Deletes what has expired and what is beyond the bound, and forgets what memory holds in vain."""
        self._shelf.hot.keep_only(self._wanted)
        self._figures.hot(len(self._shelf.hot))
        now = now_ms()
        self._figures.gone("expired", await self._shelf.expire(now - self._settings.stale_s * 1000))
        there, evicted = await self._shelf.shrink(now)
        self._figures.gone("evicted", evicted)
        self._figures.counted(there)

    async def close(self) -> None:
        """Ends sweeping."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
