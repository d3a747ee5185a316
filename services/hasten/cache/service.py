"""Wires the cache: three requests it answers, the changes and announcements it hears, and the broom behind them."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import nats.errors

from hasten.bus import Bus
from hasten.cache import opinions
from hasten.cache.domain import Entry, entry_of, is_entry_id, lifetime_s, refusal, worn
from hasten.cache.figures import Figures
from hasten.cache.guards import Reading
from hasten.cache.invalidation import Invalidator
from hasten.cache.lookup import Finder, unsuited
from hasten.cache.opinion import Load, SecondOpinion
from hasten.cache.probe import told_apart
from hasten.cache.rejections import Rejections
from hasten.cache.served import ServedHits
from hasten.cache.settings import Settings
from hasten.cache.shelf import Shelf
from hasten.cache.sweeper import Sweeper
from hasten.cache.vector import unit_vector
from hasten.cache.verdicts import Verdicts
from hasten.changes.settings import Changes
from hasten.deadline import now_ms
from hasten.fingerprint import SCHEMA, question_hash
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
from hasten.messages.change import APPLIED, Applied
from hasten.messages.failure import Failed
from hasten.replicas import Barrier, Peers
from hasten.service import Call, Service
from hasten.telemetry import logger
from hasten.topics import BadName, checked
from hasten.vectors.opening import store
from hasten.vectors.store import StoreError, Vector, VectorStore

log = logger("cache")
KEY_CHARS = 128
UNKNOWN_HIT = (
    "no hit by meaning is known under this request id of this tenant (each is kept for {hours:g} h): take the id of a "
    "request that was answered by meaning, or name the entry itself in entries"
)


class Cache:
    """One replica of the cache."""

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        vectors: VectorStore,
        *,
        changes: Changes | None = None,
        opinion: Load | None = None,
    ) -> None:
        self._settings, self._bus = settings, bus
        self._changes = changes or Changes()
        self._figures = Figures()
        self._shelf = Shelf(vectors, settings)
        self._freshness = Freshness(bus, changes=self._changes, kind="cache")
        self._rejections = Rejections(bus)
        self._hits = ServedHits(bus, settings.reject_s)
        self._barrier = Barrier(bus)
        self._opinion = SecondOpinion(settings, Verdicts(bus), opinion)
        self._finder = Finder(settings, self._shelf, self._freshness, self._rejections, self._figures, self._opinion)
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
        self._peers = Peers(self._freshness.replica.id)
        self._sweeper = Sweeper(settings, self._shelf, self._figures, self._wanted, self._publish, self._peers)
        self._service = Service(bus, "cache", "Stores answers and finds them by key or meaning.", report=self.report)
        self._service.answer(CACHE_LOOKUP, self._on_lookup, limit=settings.limit, waiting=settings.waiting)
        self._service.answer(CACHE_PUT, self._on_put, limit=settings.limit, waiting=settings.waiting)
        self._service.answer(INVALIDATE, self._on_invalidate, limit=settings.limit, waiting=settings.waiting)
        self._service.listen(APPLIED, self._on_applied)
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
        if not await told_apart(self._bus, self._settings.dim):
            log.error("the embedder finds unrelated questions alike: no hits by meaning until it tells some apart")
            self._finder.distrust()
        await self._freshness.start()
        await self._rejections.start()
        await self._hits.start()
        await self._opinion.start()
        await self._sweeper.tidy()
        self._sweeper.start()
        await self._service.start()

    async def drain(self) -> None:
        """Stops hearing and answers what was accepted."""
        await self._service.drain()

    async def close(self) -> None:
        """Ends what is left, leaves the registry of replicas and closes the store."""
        await self._service.close()
        await self._opinion.close()
        await self._invalidator.close()
        await self._sweeper.close()
        await self._freshness.close()
        await self._shelf.close()

    def report(self) -> dict[str, Any]:
        """The figures of this replica."""
        hot = self._shelf.hot
        return {
            **self._figures.report(),
            "opinions": dict(self._opinion.counts),
            "hot_entries": len(hot),
            "hot_bytes": hot.size,
        }

    @property
    def _era(self) -> str:
        return f"{SCHEMA}@{self._freshness.epoch}"

    def _wanted(self, entry: Entry) -> bool:
        fresh = self._freshness.table.fresh(entry.tenant, entry.tags, entry.read_seq)
        return fresh and not worn(entry, now_ms(), None, self._settings.stale_s)

    async def _publish(self, tenant: str, tags: list[str], entries: int, reason: str, sequence: int) -> None:
        event = Invalidated(tags=tags, entries=entries, reason=reason, sequence=sequence)
        try:
            await self._bus.publish(INVALIDATED, event, tenant=tenant)
        except (nats.errors.Error, Failed) as error:
            log.warning("nobody was told of %d entries that are gone (%s)", entries, type(error).__name__)

    def _on_applied(self, applied: Applied, tokens: dict[str, str]) -> None:
        self._barrier.heard(applied, tokens)
        self._peers.heard(tokens["replica"], time.monotonic())

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
        _check_entries(body)
        if body.request_id is None:
            asked = None if body.reject is None else question_hash(body.reject)
            return await self._invalidator.invalidate(body, call.tenant, asked)
        served = await self._hits.find(call.tenant, _named(body.request_id))
        if served is None:
            raise Failed("bad_request", UNKNOWN_HIT.format(hours=self._settings.reject_s / 3600), param="request_id")
        entries = list(dict.fromkeys([*body.entries, served.entry_id]))
        named = msgspec.structs.replace(body, entries=entries, reason=body.reason or "reject")
        return await self._invalidator.invalidate(named, call.tenant, served.question)


def _named(request_id: str) -> str:
    try:
        return checked("request_id", request_id)
    except BadName as error:
        raise Failed("bad_request", str(error), param="request_id") from None


def _check_entries(body: Invalidate) -> None:
    for one in body.entries:
        if not is_entry_id(one):
            detail = "an entry is named by its id, such as 0b9f3c1e-8d5a-5c7b-9f30-2f0a6d1c4e77"
            raise Failed("bad_request", detail, param="entries")
    if body.reject is not None and not body.entries:
        raise Failed("bad_request", "reject needs the entries that were hit wrongly", param="entries")
    if body.reject is not None and body.request_id is not None:
        raise Failed("bad_request", "request_id says already which question was answered wrongly", param="reject")


def _check_names(key: str, partition: str) -> None:
    for field, value in (("key", key), ("partition", partition)):
        if len(value) > KEY_CHARS:
            raise Failed("bad_request", f"{field} has more than {KEY_CHARS} characters", param=field)
    if not key:
        raise Failed("bad_request", "key is empty", param="key")


def build(settings: Settings, bus: Bus, changes: Changes | None = None) -> Cache:
    """The cache with its whole wiring; raises StoreError for an address that is none."""
    vectors = store(settings.store_url, Path(settings.data), "cache", api_key=settings.store_api_key or None)
    opinion = partial(opinions.load, settings.opinion, settings.opinion_threads) if settings.opinion else None
    return Cache(settings, bus, vectors, changes=changes, opinion=opinion)
