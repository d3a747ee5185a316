"""Makes answers unservable everywhere before it says so: a change in the stream, a barrier, and then the broom."""

import asyncio
import time

from hasten.bus import Bus
from hasten.cache.domain import named_tags, pair_marks
from hasten.cache.figures import Figures
from hasten.cache.rejections import Rejections
from hasten.cache.settings import Settings
from hasten.cache.shelf import Shelf, stale_where
from hasten.changes import ALL, reaching
from hasten.deadline import now_ms
from hasten.messages.cache import EntrySummary, Invalidate, Invalidation
from hasten.messages.change import TENANT_CHANGE, Change
from hasten.messages.failure import Failed
from hasten.replicas import Barrier
from hasten.telemetry import logger
from hasten.vectors.store import StoreError, Where

log = logger("cache")
LISTED = 100
"""Entries that a dry run names."""
_EVER = 2**53


class Invalidator:
    """Carries out invalidations. Deleting is not part of the promise: a store that fails leaves only garbage."""

    def __init__(
        self, settings: Settings, bus: Bus, shelf: Shelf, barrier: Barrier, rejections: Rejections, figures: Figures
    ) -> None:
        self._settings, self._bus, self._shelf = settings, bus, shelf
        self._barrier, self._rejections, self._figures = barrier, rejections, figures

    async def invalidate(self, body: Invalidate, tenant: str) -> Invalidation:
        """Returns when no replica serves what was named; raises Failed(bad_request | unavailable)."""
        tags = self._tags(body)
        if body.dry_run:
            entries, listed = await self._matching(tenant, tags)
            return Invalidation(entries=entries, listed=listed)
        rejected = await self._rejected(body, tenant)
        written = [ALL] if body.everything else tags
        change = Change(tags=[*written, *rejected], reason=body.reason or "invalidate")
        sequence = await self._bus.store(TENANT_CHANGE, change, tenant=tenant)
        stored_at = time.monotonic()
        removing = asyncio.ensure_future(self._remove(tenant, None if body.everything else tags, sequence))
        try:
            await self._barrier.passed(sequence, stored_at)
        finally:
            waited_s = time.monotonic() - stored_at
            self._figures.barrier(waited_s)
            entries = await removing
        return Invalidation(sequence=sequence, entries=entries, waited_ms=round(waited_s * 1000, 3))

    def _tags(self, body: Invalidate) -> list[str]:
        tags = named_tags(body)
        if not tags and not body.everything:
            raise Failed("bad_request", "name tags, documents, entries or models, or say everything")
        if len(tags) > self._settings.max_tags:
            raise Failed("bad_request", f"{len(tags)} things are named, at most {self._settings.max_tags} may be")
        if body.reject is not None and not body.entries:
            raise Failed("bad_request", "reject needs the entries that were hit wrongly", param="entries")
        return tags

    async def _matching(self, tenant: str, tags: list[str]) -> tuple[int, list[EntrySummary]]:
        try:
            return await self._shelf.list(self._where(tenant, tags or None, _EVER), LISTED, now_ms())
        except StoreError as error:
            raise Failed("unavailable", str(error), retry_after_ms=1000) from None

    def _where(self, tenant: str, tags: list[str] | None, sequence: int) -> list[Where]:
        named = None if tags is None or ALL in tags else reaching(tags)
        return stale_where(tenant, named, sequence)

    async def _rejected(self, body: Invalidate, tenant: str) -> list[str]:
        if body.reject is None:
            return []
        try:
            texts = {entry.id: entry.text for entry in await self._shelf.find(tenant, body.entries)}
        except StoreError as error:
            raise Failed("unavailable", str(error), retry_after_ms=1000) from None
        marks = [mark for id_ in body.entries for mark in pair_marks(tenant, id_, texts.get(id_, ""), body.reject)]
        return await self._rejections.remember(marks)

    async def _remove(self, tenant: str, tags: list[str] | None, sequence: int) -> int:
        gone = 0
        try:
            for where in self._where(tenant, tags, sequence):
                gone += (await self._shelf.remove(where)).total()
        except StoreError as error:
            log.warning("invalidated entries are still in the store: %s", error)
        self._figures.gone("invalidated", gone)
        return gone
