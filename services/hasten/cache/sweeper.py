"""Cleans up behind the guarantees, in the background: what changes made stale, what has expired, what is too much.

Nothing here decides what is served. An entry that a change outdated is refused from the moment the change is known;
deleting it only frees its place.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from itertools import groupby

from hasten.cache.domain import Entry
from hasten.cache.figures import Figures
from hasten.cache.pending import Pending
from hasten.cache.settings import Settings
from hasten.cache.shelf import TAGS, Shelf, stale_where
from hasten.changes import ALL, EVERYBODY, Eviction
from hasten.deadline import now_ms
from hasten.journal import Entry as Change
from hasten.messages.change import SWEPT
from hasten.replicas import Peers
from hasten.telemetry import logger, where
from hasten.vectors.store import StoreError

log = logger("cache")
TICK_S = 0.005
"""How long changes are collected before they are swept: those of one transaction come together."""
REST = 20
"""A sweep of more than `EXACT` changes is followed by a rest of this many times its own length, so that a burst leaves
the store to the lookups; never more than `sweep_s`. After a smaller one it is once its length."""
BACKUP_S = 0.5
"""How much later each further replica sweeps a table: it finds nothing, unless the ones before it are gone."""
EXACT = 8
"""Changes in one sweep up to which each is deleted by its own sequence."""
FORMS = 4
"""Tags of a change of one row: with and without its schema, and what reaches answers about the whole table."""
Publish = Callable[[str, list[str], int, str, int], Awaitable[None]]
"""Says for a tenant which tags removed how many entries, why, and at which sequence; never raises."""


class Sweeper:
    """Collects the tags of changes and deletes their entries: a few at once, those of a burst together."""

    def __init__(
        self,
        settings: Settings,
        shelf: Shelf,
        figures: Figures,
        wanted: Callable[[Entry], bool],
        publish: Publish,
        peers: Peers,
    ) -> None:
        self._settings, self._shelf, self._figures = settings, shelf, figures
        self._wanted, self._publish, self._peers = wanted, publish, peers
        self._pending = Pending()
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begins to sweep."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._sweep_always()), loop.create_task(self._tidy_always())]

    def hear(self, change: Change, eviction: Eviction) -> None:
        """Notes the tags of a change. Who carries out an invalidation deletes its entries itself and tells their
        number, so that it is left to it for a while."""
        now_s = time.monotonic()
        wait_s = self._settings.sweep_s if SWEPT in change.headers else TICK_S
        at_s = now_s + wait_s + BACKUP_S * self._peers.place(eviction.tags[0].partition(":")[0], now_s)
        for tag in eviction.tags:
            self._pending.add(eviction.tenant, tag, change.sequence, at_s)
        self._news.set()

    async def _sweep_always(self) -> None:
        while True:
            self._news.clear()
            next_s = self._pending.next_s()
            if next_s is None or (wait_s := next_s - time.monotonic()) > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if next_s is None else wait_s):
                        await self._news.wait()
                continue
            began_s, rest = time.monotonic(), REST if len(self._pending) > EXACT * FORMS else 1
            await self._tried(self.sweep())
            await asyncio.sleep(min(self._settings.sweep_s, rest * (time.monotonic() - began_s)))

    async def _tidy_always(self) -> None:
        while True:
            await asyncio.sleep(self._settings.tidy_s)
            await self._tried(self.tidy())

    async def _tried(self, work: Coroutine[None, None, None]) -> None:
        """Whatever goes wrong, the next time is tried again: what is left takes room and is not served."""
        try:
            await work
        except StoreError as error:
            log.warning("the cache was not cleaned up: %s", error)
        except Exception as error:
            log.error("the cache was not cleaned up: %s", where(error))

    async def sweep(self) -> None:
        """Deletes the entries of what is due."""
        for tenant, changes in self._pending.take(time.monotonic()).items():
            for some in _together(changes):
                await self._remove(tenant, some)

    async def _remove(self, tenant: str, changes: list[tuple[int, str]]) -> None:
        """Deletes what was read before the first of these changes: by the others too it is outdated, and nothing that
        was read since is touched."""
        sequence, tags = changes[0][0], [tag for _, tag in changes]
        named = None if ALL in tags else tags
        for stale in stale_where(None if tenant == EVERYBODY else tenant, named, sequence):
            gone = Counter[str]()
            try:
                await self._shelf.remove(stale, gone, patient=True)
            finally:
                for owner, entries in gone.items():
                    self._figures.gone("invalidated", entries)
                    await self._publish(owner, tags, entries, "change", sequence)

    async def tidy(self) -> None:
        """Deletes what has expired and what is beyond the bound, and forgets what memory holds in vain."""
        await self._shelf.hot.keep_only(self._wanted)
        self._figures.hot(len(self._shelf.hot))
        now = now_ms()
        self._figures.gone("expired", await self._shelf.expire(now - self._settings.stale_s * 1000))
        there, evicted = await self._shelf.shrink(now)
        self._figures.gone("evicted", evicted.total())
        self._figures.counted(there)
        for owner, entries in evicted.items():
            await self._publish(owner, [], entries, "no room", 0)

    async def close(self) -> None:
        """Ends sweeping."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _together(changes: list[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """The changes in parts for one deletion each: those of one sequence if there are few, else as many as go."""
    parts = [list(part) for _, part in groupby(changes, key=lambda change: change[0])]
    for part in parts if len(parts) <= EXACT else [changes]:
        for start in range(0, len(part), TAGS):
            yield part[start : start + TAGS]
