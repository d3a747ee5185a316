"""Finds an answer by key or by meaning and says why not; checks freshness last, with no wait before the reply."""

import math

import msgspec

from hasten.cache.canary import Canary
from hasten.cache.domain import ALIKE, Entry, hit, least_similarity, threshold_of, worn
from hasten.cache.explanation import Explainer
from hasten.cache.figures import Figures
from hasten.cache.gate import Gate
from hasten.cache.grey import judged_from
from hasten.cache.guards import Reading, compared
from hasten.cache.guards.moment import passing
from hasten.cache.judgement import Judgement, judged
from hasten.cache.opinion import SecondOpinion
from hasten.cache.rejections import Rejections
from hasten.cache.settings import Settings
from hasten.cache.shelf import Shelf
from hasten.cache.vector import unit_vector
from hasten.cache.verifier import shipped
from hasten.deadline import now_ms
from hasten.freshness import Freshness
from hasten.messages.cache import CacheHit, CacheLookup, CacheMiss, Explained
from hasten.telemetry import logger
from hasten.vectors.store import StoreError, Vector

log = logger("cache")
UNRELATED = 0.85
"""The cosine similarity that questions without a word in common stay below, or the embedder is dead."""


class Finder:
    """Answers lookups from a shelf. A store that fails is a miss: the question can still be answered by a model."""

    def __init__(
        self,
        settings: Settings,
        shelf: Shelf,
        freshness: Freshness,
        rejections: Rejections,
        figures: Figures,
        opinion: SecondOpinion,
    ) -> None:
        self._settings, self._shelf, self._freshness = settings, shelf, freshness
        self._rejections, self._figures, self._opinion = rejections, figures, opinion
        self._canary = Canary(UNRELATED)
        self._weights = shipped().weights
        self._gate = Gate(settings, figures)
        self._explainer = Explainer(settings, shelf, freshness, self._unfit, self._refused)

    def distrust(self) -> None:
        """Stops hits by meaning until the embedder tells some pair of questions apart."""
        self._canary.condemn()
        self._figures.embedder_dead(self._canary.dead)

    async def find(self, lookup: CacheLookup, tenant: str, era: str) -> CacheHit | CacheMiss:
        """The answer, or the reason of the miss and what to store with."""
        asked = "exact" if lookup.vector is None else "semantic"
        explained: Explained | None = None
        try:
            if lookup.explain:
                explained = await self._explainer.explain(lookup, tenant, era)
            if not self._freshness.leased:
                found: CacheHit | CacheMiss = CacheMiss(reason="lease")
            elif lookup.vector is None:
                found = await self._by_key(lookup, tenant, era)
            else:
                found = await self._by_meaning(lookup, lookup.vector, tenant, era)
                found = self._gate.passed(found, threshold_of(lookup, tenant, self._settings), counted=lookup.counted)
        except StoreError as error:
            log.warning("a lookup is a miss: %s", error)
            found = CacheMiss(reason="unavailable")
        if explained is not None:
            found = msgspec.structs.replace(found, explained=explained)
        if isinstance(found, CacheHit):
            if lookup.counted:
                self._figures.hit(found.kind, asked, found.age_s)
            return found
        if lookup.counted:
            self._figures.miss(asked, found.reason)
        return msgspec.structs.replace(found, read_seq=self._freshness.applied)

    def _unfit(self, entry: Entry, lookup: CacheLookup, era: str) -> str | None:
        """Why this entry may not be served, as far as the entry itself is concerned."""
        stale_s = self._settings.stale_s if entry.key == lookup.key else 0.0
        if worn(entry, now_ms(), lookup.max_age_s, stale_s):
            return "expired"
        if entry.era != era or not self._freshness.table.fresh(
            entry.tenant, [*entry.tags, *lookup.tags], entry.read_seq
        ):
            return "stale"
        return None if self._freshness.leased else "lease"

    async def _by_key(self, lookup: CacheLookup, tenant: str, era: str) -> CacheHit | CacheMiss:
        def usable(warm: Entry) -> bool:
            return now_ms() < warm.expires_ms and self._unfit(warm, lookup, era) is None

        entry = await self._shelf.get(tenant, lookup.key, usable)
        if entry is None:
            return CacheMiss(reason="absent")
        reason = self._unfit(entry, lookup, era)
        return CacheMiss(reason=reason) if reason else hit(entry, "exact", now_ms())

    async def _by_meaning(self, lookup: CacheLookup, raw: bytes, tenant: str, era: str) -> CacheHit | CacheMiss:
        reading = Reading(lookup.text[: self._settings.max_chars])
        vector = unit_vector(raw, self._settings.dim)
        if (reason := self._unsearchable(lookup, reading, vector)) or vector is None:
            return CacheMiss(reason=reason or "unavailable")
        threshold = threshold_of(lookup, tenant, self._settings)
        if threshold >= 1:
            return CacheMiss(reason="disabled")
        least = judged_from(lookup, threshold, self._settings) if self._opinion.active else math.inf
        grey: dict[str, tuple[Entry, float]] = {}
        miss: CacheMiss | None = None
        for entry, similarity in await self._shelf.near(vector, tenant, lookup.partition, era, now_ms()):
            found = self._refused(lookup, reading, entry, similarity, threshold, era)
            if found.reason is None:
                self._shelf.served(entry)
                kind = "exact" if entry.key == lookup.key else "semantic"
                return hit(entry, kind, now_ms(), similarity, found.confidence)
            miss = miss or CacheMiss(
                reason=found.reason,
                nearest=entry.id,
                similarity=similarity,
                threshold=threshold,
                guard=found.guard,
                confidence=found.confidence,
            )
            if similarity >= least:
                if self._arguable(lookup, reading, entry, era):
                    grey[entry.id] = entry, similarity
            elif self._weights.most(similarity) < threshold:
                break
        if grey and (same := await self._opinion.find(lookup.text, [entry for entry, _ in grey.values()])):
            entry, similarity = grey[same.id]
            if self._arguable(lookup, reading, entry, era):
                self._opinion.count("served")
                self._shelf.served(entry)
                return hit(entry, "semantic", now_ms(), similarity)
        return miss or CacheMiss(reason="absent", threshold=threshold)

    def _unsearchable(self, lookup: CacheLookup, reading: Reading, vector: Vector | None) -> str | None:
        """Why this question is not looked up by meaning."""
        if not self._settings.semantic:
            return "disabled"
        if vector is None:
            self._figures.wrong_vector()
            return "unavailable"
        if reason := unsuited(lookup.text, reading, self._settings):
            return reason
        self._canary.look(frozenset(reading.content), vector)
        self._figures.embedder_dead(self._canary.dead)
        return "unavailable" if self._canary.dead else None

    def _arguable(self, lookup: CacheLookup, reading: Reading, entry: Entry, era: str) -> bool:
        """Whether a second opinion may let this refused neighbour answer; asked before it, and again after."""
        if self._unfit(entry, lookup, era) or self._rejections.blocks(entry, lookup.text):
            return False
        return compared(reading, Reading(entry.text)) is None

    def _refused(
        self, lookup: CacheLookup, reading: Reading, entry: Entry, similarity: float, threshold: float, era: str
    ) -> Judgement:
        """Why a neighbour may not answer."""
        if similarity + ALIKE < least_similarity(lookup):
            return Judgement(reason="threshold")
        if lookup.max_distance is not None and lookup.max_distance <= 0 and entry.text != lookup.text:
            return Judgement(reason="threshold")
        if reason := self._unfit(entry, lookup, era):
            return Judgement(reason=reason)
        if entry.key == lookup.key:
            return Judgement()
        if self._rejections.blocks(entry, lookup.text):
            return Judgement(reason="rejected")
        if self._weights.most(similarity) < threshold:
            return Judgement(reason="threshold")
        return judged(reading, Reading(entry.text), similarity, threshold, self._weights)


def unsuited(text: str, reading: Reading, settings: Settings) -> str | None:
    """Why a text is found by its key only: it is too short, too long, or about one person or one moment."""
    if sum(word.kind != "mark" for word in reading.plain) < settings.min_words:
        return "short"
    return "uncacheable" if len(text) > settings.max_chars or passing(reading) else None
