"""Accounts for a lookup: every neighbour with its verdict, and what stands between the question and the rest.

Nothing here decides: the verdicts are those of the lookup itself. It costs two searches more and is done on request.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable

from hasten.cache.domain import Entry, threshold_of
from hasten.cache.guards import Reading
from hasten.cache.judgement import UNJUDGED, Judgement
from hasten.cache.settings import Settings
from hasten.cache.shelf import Shelf
from hasten.cache.vector import unit_vector
from hasten.changes import ALL
from hasten.deadline import now_ms
from hasten.freshness import Freshness
from hasten.messages.cache import CacheLookup, Explained, Neighbour
from hasten.tag_table import TagTable
from hasten.vectors.store import Vector

WORDS = 16
"""The most words that are named on one side."""
FAR = 0.7
"""The least cosine similarity of an entry of another partition that is named."""
_WORD = re.compile(r"[^\W_]+(?:[.,:/@'%-]+[^\W_]+)*%?|[-+*/=<>%€$£]+")
Unfit = Callable[[Entry, CacheLookup, str], str | None]
Judge = Callable[[CacheLookup, Reading, Entry, float, float, str], Judgement]


class Explainer:
    """Explains lookups. `unfit` and `judge` are what the lookup itself asks of an entry and of a neighbour."""

    def __init__(self, settings: Settings, shelf: Shelf, freshness: Freshness, unfit: Unfit, judge: Judge) -> None:
        self._settings, self._shelf, self._freshness = settings, shelf, freshness
        self._unfit, self._judge = unfit, judge

    async def explain(self, lookup: CacheLookup, tenant: str, era: str) -> Explained:
        """The account of a lookup; raises StoreError."""
        own = await self._shelf.get(tenant, lookup.key, lambda _: True)
        exact = "absent" if own is None else self._unfit(own, lookup, era) or "hit"
        known = own or self._shelf.past.recall(tenant, lookup.key)
        verdict = "removed" if own is None else exact
        by_key = None if known is None else self._neighbour(lookup, known, 1.0, verdict)
        vector = None if lookup.vector is None else unit_vector(lookup.vector, self._settings.dim)
        if vector is None:
            return Explained(exact=exact, by_key=by_key)
        return Explained(
            exact=exact,
            by_key=by_key,
            threshold=threshold_of(lookup, tenant, self._settings),
            nearest=await self._near(lookup, vector, tenant, era),
            elsewhere=await self._elsewhere(lookup, vector, tenant, era),
        )

    async def _near(self, lookup: CacheLookup, vector: Vector, tenant: str, era: str) -> list[Neighbour]:
        reading = Reading(lookup.text[: self._settings.max_chars])
        threshold = threshold_of(lookup, tenant, self._settings)
        found = []
        for entry, similarity in await self._shelf.near(vector, tenant, lookup.partition, era, now_ms()):
            judged = self._judge(lookup, reading, entry, similarity, threshold, era)
            found.append(self._neighbour(lookup, entry, similarity, judged.reason or "hit", judged))
        return found

    async def _elsewhere(self, lookup: CacheLookup, vector: Vector, tenant: str, era: str) -> list[Neighbour]:
        """Neighbours in other partitions: of the tenant, and of no user but the one who asks."""
        found = []
        for entry, similarity in await self._shelf.around(vector, tenant):
            elsewhere = entry.partition != lookup.partition or entry.era != era
            if elsewhere and similarity >= FAR and not private(lookup, entry):
                found.append(self._neighbour(lookup, entry, similarity, "partition"))
        return found

    def _neighbour(
        self, lookup: CacheLookup, entry: Entry, similarity: float, verdict: str, judged: Judgement = UNJUDGED
    ) -> Neighbour:
        now, tags = now_ms(), [*entry.tags, *lookup.tags]
        asked_only, stored_only = differences(lookup.text, entry.text) if lookup.text and entry.text else ([], [])
        return Neighbour(
            entry_id=entry.id,
            verdict=verdict,
            text=entry.text,
            similarity=round(min(1.0, similarity), 6),
            guard=judged.guard,
            confidence=judged.confidence,
            asked_only=asked_only,
            stored_only=stored_only,
            changed=changed_since(self._freshness.table, entry.tenant, tags, entry.read_seq),
            differs=differing(lookup, entry) if verdict == "partition" else [],
            tags=entry.tags,
            sources=sources_of(entry),
            model=entry.answer.model,
            read_seq=entry.read_seq,
            age_s=round(max(0.0, now - entry.created_ms) / 1000, 3),
            lives_s=round(max(0.0, entry.expires_ms - now) / 1000, 3),
        )


def private(lookup: CacheLookup, entry: Entry) -> bool:
    """Whether an entry may be another user's alone: it says so, or it has a user and does not say."""
    if not entry.parts:
        return bool(entry.user)
    return entry.parts.get("user") not in (None, lookup.parts.get("user"))


def differing(lookup: CacheLookup, entry: Entry) -> list[str]:
    """The parts that are not the same; `unknown` where one side has not said what its partition is made of, `schema`
    when only the form of the hashes (or the stream of changes) is another."""
    if entry.partition == lookup.partition:
        return ["schema"]
    if not lookup.parts or not entry.parts:
        return ["unknown"]
    names = sorted({*lookup.parts, *entry.parts})
    return [name for name in names if lookup.parts.get(name) != entry.parts.get(name)] or ["schema"]


def differences(asked: str, stored: str) -> tuple[list[str], list[str]]:
    """The words that only one of two texts has, in order; both empty when the words differ in their order alone."""
    left, right = _words(asked), _words(stored)
    return _beyond(left, right), _beyond(right, left)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _beyond(words: list[str], others: list[str]) -> list[str]:
    left, found = Counter(words) - Counter(others), []
    for word in words:
        if left[word] > 0:
            left[word] -= 1
            found.append(word)
    return found[:WORDS]


def changed_since(table: TagTable, tenant: str, tags: Iterable[str], read_seq: int) -> dict[str, int]:
    """The tags that have changed since an entry was read, by themselves or with what is above them, and the sequence;
    `*` when everything has, or the entry is older than what is known."""
    found = {tag: table.last(tenant, tag) for tag in (*tags, ALL)}
    since = {tag: sequence for tag, sequence in found.items() if sequence > read_seq}
    return {ALL: table.floor} | since if read_seq < table.floor else since


def sources_of(entry: Entry) -> list[str]:
    """The passages that the answer was made from, as `<id>@<version>`."""
    passages = [
        passage
        for note in entry.answer.notes
        if note.get("kind") == "sources" and isinstance(note.get("data"), dict)
        for passage in note["data"].get("passages", [])
        if isinstance(passage, dict)
    ]
    return [f"{passage.get('id')}@{passage.get('version')}" for passage in passages]
