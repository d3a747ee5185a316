"""Wires the cache: three requests it answers, the changes and announcements it hears, and the broom behind them."""

from pathlib import Path
from typing import Any

from hasten.bus import Bus
from hasten.cache.domain import Entry, entry_of, lifetime_s, refusal, worn
from hasten.cache.figures import Figures
from hasten.cache.guards import Reading
from hasten.cache.invalidation import Invalidator
from hasten.cache.lookup import Finder, unsuited
from hasten.cache.rejections import Rejections
from hasten.cache.settings import Settings
from hasten.cache.shelf import Shelf
from hasten.cache.sweeper import Sweeper
from hasten.cache.vector import unit_vector
from hasten.changes.settings import Changes
from hasten.deadline import now_ms
from hasten.fingerprint import SCHEMA
from hasten.freshness import Freshness
from hasten.messages.cache import (
    CACHE_LOOKUP,
    CACHE_PUT,
    INVALIDATE,
    INVALIDATED,
    CacheHit,
    CacheLookup,
    CacheMiss,
    CachePut,
    Invalidate,
    Invalidated,
    Invalidation,
    NotStored,
    Stored,
)
from hasten.messages.change import APPLIED
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.failure import Failed
from hasten.replicas import Barrier
from hasten.service import Call, Service
from hasten.telemetry import logger
from hasten.vectors.opening import store
from hasten.vectors.store import StoreError, Vector, VectorStore

log = logger("cache")
KEY_CHARS = 128
PROBE_MS = 2000
SELF = "_cache"
"""In whose name the cache asks the embedder for the width of its vectors."""


class Cache:
    """One replica of the cache."""

    def __init__(self, settings: Settings, bus: Bus, vectors: VectorStore, changes: Changes | None = None) -> None:
        self._settings, self._bus = settings, bus
        self._changes = changes or Changes()
        self._figures = Figures()
        self._shelf = Shelf(vectors, settings)
        self._freshness = Freshness(bus, changes=self._changes)
        self._rejections = Rejections(bus)
        self._barrier = Barrier(bus)
        self._finder = Finder(settings, self._shelf, self._freshness, self._rejections, self._figures)
        self._invalidator = Invalidator(
            settings,
            bus,
            self._changes.rules,
            self._shelf,
            self._barrier,
            self._rejections,
            self._figures,
            self._publish,
        )
        self._sweeper = Sweeper(settings, self._shelf, self._figures, self._wanted, self._publish)
        self._service = Service(bus, "cache", "Stores answers and finds them by key or meaning.", report=self.report)
        self._service.answer(CACHE_LOOKUP, self._on_lookup, limit=settings.limit, waiting=settings.waiting)
        self._service.answer(CACHE_PUT, self._on_put, limit=settings.limit, waiting=settings.waiting)
        self._service.answer(INVALIDATE, self._on_invalidate, limit=settings.limit, waiting=settings.waiting)
        self._service.listen(APPLIED, self._barrier.heard)
        self._freshness.on_eviction(self._rejections.hear)
        self._freshness.on_eviction(self._sweeper.hear)

    async def start(self) -> None:
        """Opens the store, reads the changes and the rejections, and hears requests when it returns.

        Raises StoreError when stored vectors, setting and embedder do not agree on the width, naming both sizes, and
        Failed(unavailable) without JetStream.
        """
        for warning in self._changes.warnings:
            log.warning("%s", warning)
        await self._shelf.open()
        await self._agree_on_width()
        await self._freshness.start()
        await self._rejections.start()
        await self._sweeper.tidy()
        self._sweeper.start()
        await self._service.start()

    async def _agree_on_width(self) -> None:
        """Compares the embedder's vectors with the setting, if an embedder runs."""
        deadline = now_ms() + PROBE_MS
        reply = await self._bus.request(EMBED, Embed(texts=["width"]), deadline_ms=deadline, tenant=SELF)
        if isinstance(reply, Embedded) and reply.dim != self._settings.dim:
            raise StoreError(
                f"the embedder's vectors have {reply.dim} dimensions and those of the cache {self._settings.dim}: "
                f"set [cache] dim = {reply.dim} and give the cache an empty store"
            )

    async def drain(self) -> None:
        """Stops hearing and answers what was accepted."""
        await self._service.drain()

    async def close(self) -> None:
        """Ends what is left, leaves the registry of replicas and closes the store."""
        await self._service.close()
        await self._invalidator.close()
        await self._sweeper.close()
        await self._freshness.close()
        await self._shelf.close()

    def report(self) -> dict[str, Any]:
        """The figures of this replica."""
        hot = self._shelf.hot
        return {**self._figures.report(), "hot_entries": len(hot), "hot_bytes": hot.size}

    @property
    def _era(self) -> str:
        return f"{SCHEMA}@{self._freshness.epoch}"

    def _wanted(self, entry: Entry) -> bool:
        fresh = self._freshness.table.fresh(entry.tenant, entry.tags, entry.read_seq)
        return fresh and not worn(entry, now_ms(), None)

    async def _publish(self, tenant: str, tags: list[str], entries: int, reason: str, sequence: int) -> None:
        event = Invalidated(tags=tags, entries=entries, reason=reason, sequence=sequence)
        await self._bus.publish(INVALIDATED, event, tenant=tenant)

    async def _on_lookup(self, lookup: CacheLookup, call: Call) -> CacheHit | CacheMiss:
        _check_names(lookup.key, lookup.partition)
        return await self._finder.find(lookup, call.tenant, self._era)

    async def _on_put(self, put: CachePut, call: Call) -> Stored | NotStored:
        _check_names(put.key, put.partition)
        if len(put.tags) > self._settings.max_tags:
            raise Failed("bad_request", f"there are {len(put.tags)} tags, at most {self._settings.max_tags} may be")
        entry = entry_of(put, call.tenant, self._era, self._freshness.applied, now_ms(), self._settings)
        reason = self._refused(put, entry)
        if reason is None:
            try:
                await self._shelf.put(entry, self._vector(put))
            except StoreError as error:
                log.warning("an answer was not stored: %s", error)
                reason = "unavailable"
        self._figures.put(reason or "stored")
        return NotStored(reason=reason) if reason else Stored(entry_id=entry.id)

    def _refused(self, put: CachePut, entry: Entry) -> str | None:
        if reason := refusal(put.answer, self._settings):
            return reason
        if lifetime_s(put.ttl_s, self._settings) <= 0:
            return "ttl"
        return None if self._freshness.table.fresh(entry.tenant, entry.tags, entry.read_seq) else "stale"

    def _vector(self, put: CachePut) -> Vector | None:
        """The vector to find the entry by, if it may be found by its meaning at all."""
        if put.vector is None or not self._settings.semantic:
            return None
        vector = unit_vector(put.vector, self._settings.dim)
        if vector is None:
            self._figures.wrong_vector()
        return None if unsuited(put.text, Reading(put.text[: self._settings.max_chars]), self._settings) else vector

    async def _on_invalidate(self, body: Invalidate, call: Call) -> Invalidation:
        return await self._invalidator.invalidate(body, call.tenant)


def _check_names(key: str, partition: str) -> None:
    for field, value in (("key", key), ("partition", partition)):
        if len(value) > KEY_CHARS:
            raise Failed("bad_request", f"{field} has more than {KEY_CHARS} characters", param=field)
    if not key:
        raise Failed("bad_request", "key is empty", param="key")


def build(settings: Settings, bus: Bus, changes: Changes | None = None) -> Cache:
    """The cache with its whole wiring; raises StoreError for an address that is none."""
    vectors = store(settings.store_url, Path(settings.data), "cache", api_key=settings.store_api_key or None)
    return Cache(settings, bus, vectors, changes)
