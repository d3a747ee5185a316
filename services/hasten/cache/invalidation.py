"""Makes answers unservable everywhere before it says so: a change in the stream, a barrier, and then the broom."""

import asyncio
import time
from collections import Counter

from hasten.bus import Bus
from hasten.cache.domain import named_tags, pair_marks
from hasten.cache.figures import Figures
from hasten.cache.rejections import Rejections
from hasten.cache.settings import Settings
from hasten.cache.shelf import Shelf, stale_where
from hasten.cache.sweeper import Publish
from hasten.cache.trial import read_for
from hasten.changes import ALL, Rules, reaching
from hasten.changes.tags import MAX_CHARS
from hasten.deadline import now_ms
from hasten.fingerprint import question_hash
from hasten.messages.cache import EntrySummary, Invalidate, Invalidation, SampleEvent
from hasten.messages.change import SWEPT, TENANT_CHANGE, Change
from hasten.messages.failure import Failed
from hasten.replicas import Barrier
from hasten.telemetry import logger
from hasten.vectors.store import StoreError, Where

log = logger("cache")
LISTED = 100
"""Entries that a dry run names."""
_EVER = 2**53


class Invalidator:
    """Carries out invalidations. Deleting is not part of the promise: a store that fails leaves only garbage, and one
    that is slow goes on deleting after the reply."""

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        rules: Rules,
        shelf: Shelf,
        barrier: Barrier,
        rejections: Rejections,
        figures: Figures,
        publish: Publish,
    ) -> None:
        self._settings, self._bus, self._shelf, self._publish = settings, bus, shelf, publish
        self._rules = rules
        self._barrier, self._rejections, self._figures = barrier, rejections, figures
        self._removals: set[asyncio.Task[None]] = set()

    async def invalidate(self, body: Invalidate, tenant: str, rejected: str | None = None) -> Invalidation:
        """Returns when no replica serves what was named; raises Failed(bad_request | unavailable). `rejected` is the
        hash of the question that the entries must not answer again."""
        if body.event is not None:
            return await self._tried(body, body.event, tenant)
        tags = self._tags(body)
        if body.dry_run:
            entries, listed = await self._matching(tenant, None if body.everything else tags)
            return Invalidation(entries=entries, listed=listed)
        marks = await self._marks(body, tenant, rejected)
        named, reason = [ALL] if body.everything else tags, body.reason or "invalidate"
        change = Change(tags=[*named, *marks], reason=reason)
        sequence = await self._bus.store(TENANT_CHANGE, change, tenant=tenant, headers={SWEPT: "1"})
        stored_at, gone = time.monotonic(), Counter[str]()
        removing = asyncio.get_running_loop().create_task(self._remove(tenant, named, sequence, reason, gone))
        self._removals.add(removing)
        removing.add_done_callback(self._removed)
        try:
            await self._barrier.passed(sequence, stored_at)
        finally:
            waited_s = time.monotonic() - stored_at
            self._figures.barrier(waited_s)
        await asyncio.wait([removing], timeout=self._settings.store_timeout_s)
        return Invalidation(sequence=sequence, entries=gone.total(), waited_ms=round(waited_s * 1000, 3))

    def _tags(self, body: Invalidate) -> list[str]:
        tags = named_tags(body)
        if not tags and not body.everything:
            raise Failed("bad_request", "name tags, documents, entries or models, or say everything")
        if len(tags) > self._settings.max_tags:
            raise Failed("bad_request", f"{len(tags)} things are named, at most {self._settings.max_tags} may be")
        if not all(tags):
            raise Failed("bad_request", "a tag must not be empty", param="tags")
        if (longest := max(map(len, tags), default=0)) > MAX_CHARS:
            raise Failed("bad_request", f"a tag has {longest} characters, at most {MAX_CHARS} may be", param="tags")
        return tags

    async def _tried(self, body: Invalidate, event: SampleEvent, tenant: str) -> Invalidation:
        """What a change event would remove of this tenant's, if it came now."""
        if not body.dry_run:
            raise Failed("bad_request", "an event is only tried in a dry run; publish it to apply it", param="event")
        if named_tags(body) or body.everything or body.reject is not None:
            raise Failed("bad_request", "name either an event or what to remove", param="event")
        reading = read_for(tenant, event, self._rules)
        tags = [one.tag for one in reading.tags]
        entries, listed = await self._matching(tenant, tags) if tags else (0, [])
        return Invalidation(entries=entries, listed=listed, event=reading)

    async def _matching(self, tenant: str, tags: list[str] | None) -> tuple[int, list[EntrySummary]]:
        try:
            return await self._shelf.list(self._where(tenant, tags, _EVER), LISTED, now_ms())
        except StoreError as error:
            raise Failed("unavailable", str(error), retry_after_ms=1000) from None

    def _where(self, tenant: str, tags: list[str] | None, sequence: int) -> list[Where]:
        named = None if tags is None or ALL in tags else reaching(tags)
        return stale_where(tenant, named, sequence)

    async def _marks(self, body: Invalidate, tenant: str, rejected: str | None) -> list[str]:
        if rejected is None:
            return []
        try:
            stored = {entry.id: question_hash(entry.text) for entry in await self._shelf.find(tenant, body.entries)}
        except StoreError as error:
            raise Failed("unavailable", str(error), retry_after_ms=1000) from None
        marks = [mark for id_ in body.entries for mark in pair_marks(tenant, id_, stored.get(id_), rejected)]
        return await self._rejections.remember(marks)

    async def _remove(self, tenant: str, tags: list[str], sequence: int, reason: str, gone: Counter[str]) -> None:
        """Deletes and tells how many entries went, which `gone` shows meanwhile."""
        try:
            for where in self._where(tenant, tags, sequence):
                await self._shelf.remove(where, gone)
        except StoreError as error:
            log.warning("invalidated entries are still in the store: %s", error)
        if gone:
            self._figures.gone("invalidated", gone.total())
            await self._publish(tenant, tags, gone.total(), reason, sequence)

    def _removed(self, removal: asyncio.Task[None]) -> None:
        self._removals.discard(removal)
        if not removal.cancelled() and (error := removal.exception()) is not None:
            log.error("an invalidation did not end its deletions: %s", type(error).__name__)

    async def close(self) -> None:
        """Ends the deletions that go on after their replies; what they leave expires or is swept elsewhere."""
        removals = list(self._removals)
        for removal in removals:
            removal.cancel()
        await asyncio.gather(*removals, return_exceptions=True)
