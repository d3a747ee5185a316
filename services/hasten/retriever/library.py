"""Documents in a vector store: a new version replaces the old one in a single write, and readers never see half of one.

Chunks are written first, then the manifest that makes them the current version, then what is older is deleted. Whoever
reads checks each chunk against the manifests, so it does not matter when, or by which replica, the rest is deleted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hasten.messages.chat import Scalar
from hasten.messages.retrieve import Passage
from hasten.retriever.bm25 import question_terms
from hasten.retriever.domain import belongs, current, overtaken, passages, without
from hasten.retriever.fusion import Blend, fused
from hasten.retriever.matching import compared
from hasten.retriever.records import (
    INDEXES,
    Key,
    Manifest,
    about_id,
    chunks_where,
    corpus_where,
    emptied_where,
    floor_point,
    floors_where,
    manifest_point,
    manifests_where,
    older_where,
    path,
    row_id,
    sentences_id,
)
from hasten.retriever.words import Words
from hasten.telemetry import logger
from hasten.vectors.store import IndexKind, Match, Point, StoreError, Vector, VectorStore, Where

log = logger("retriever")
WIDTH, MAX_WIDTH = 3, 2000
"""Chunks searched per passage wanted (several chunks share one passage), and the most chunks searched."""
SEARCHES = 8
"""Searches for one request, at most: again after a replacement, or wider when too little was current."""
SPARE = 64
_TEXT: IndexKind = "keyword"
PAGE = 500


Branch = Callable[[int], Awaitable[list[Match]]]
"""A search for as many chunks."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What the whole collection depends on: the embedding model, and the stream (by its creation) versions count in."""

    model: str
    stream: str = ""


class Library:
    """The documents of all tenants in one opened store. Methods raise StoreError.

    With a `blend` their words are searched as well as their vectors.
    """

    def __init__(self, store: VectorStore, blend: Blend | None = None) -> None:
        self._store, self._blend = store, blend
        self._words = Words(store) if blend is not None else None
        self.mended: list[str] = []
        """The indexes that the store lacked when it was opened, and has now."""
        self._about: About | None = None
        self.hidden: dict[str, int] = {}
        """Deletions by key that this replica knows of and that the store may not have yet: already hidden here."""

    async def open(self, dim: int, model: str, indexed: list[str] | dict[str, IndexKind]) -> None:
        """Opens or makes the collection and mends what an existing one lacks; raises StoreError when its vectors come
        from another model."""
        named = indexed if isinstance(indexed, dict) else dict.fromkeys(indexed, _TEXT)
        kinds = {path(name): kind for name, kind in named.items()}
        made = await self._store.open(dim, {**INDEXES, **kinds}, terms=self._blend is not None)
        if found := await self._store.get([about_id()]):
            self._about = msgspec.convert(found[0].payload, About)
            if self._about.model != model:
                raise StoreError(
                    f"the passages were embedded by {self._about.model} and the embedder runs {model}: "
                    "run that model again, or delete the store and start anew"
                )
            if made:
                log.warning("the store lacked indexes, which it has now: %s", ", ".join(made))
                self.mended = made
        self._model = model
        await self.count_words()

    async def count_words(self) -> None:
        """Counts the chunks that cannot be found by words, and has them mended if there are any."""
        if self._words is not None:
            await self._words.count()

    @property
    def wordless(self) -> int:
        """How many chunks cannot be found by words yet; while there are any, all are searched by vectors alone."""
        return 0 if self._words is None else self._words.lacking

    @property
    def empty(self) -> bool:
        """Whether nothing has ever been written here: everything the stream still holds has to be read again."""
        return self._about is None

    async def adopt(self, stream: str) -> None:
        """Notes which stream the versions count in; those of another one become older than anything in this one."""
        if self._about is not None and self._about.stream not in ("", stream):
            log.warning("the stream of changes was made anew: what is indexed stays until it is ingested again")
            await self._rebase()
        self._about = About(model=self._model, stream=stream)
        payload = {"kind": "about", **msgspec.to_builtins(self._about)}
        await self._store.upsert([Point(id=about_id(), payload=payload)])

    async def _rebase(self) -> None:
        while found := await self._store.scroll(Where(above={"version": 0}), PAGE):
            await self._store.set_payload([point.id for point in found], {"version": 0})

    async def stored(self, keys: set[str]) -> dict[str, Manifest]:
        """The current manifest of each of these documents that has one."""
        if not keys:
            return {}
        limit = len(keys) + SPARE
        while len(found := await self._store.scroll(manifests_where(keys), limit)) >= limit:
            limit *= 2
        return current(found)

    async def known(self, keys: set[str]) -> dict[str, Manifest]:
        """Like `stored`, with the deletions that this replica knows of."""
        return without(await self.stored(keys), self.hidden)

    async def listed(self, where: Where, limit: int) -> list[Point]:
        """Which documents have manifests that match, `limit` at most; a document may come with several versions."""
        return await self._store.scroll(where, limit, ["key", "document"])

    async def add(self, points: list[Point]) -> None:
        """Writes chunks of a version that nobody sees yet."""
        await self._store.upsert(points)

    async def flip(self, key: Key, manifest: Manifest) -> None:
        """Makes a version the current one, unless there is a newer."""
        await self._store.upsert([manifest_point(key, manifest)])

    async def clean(self, key: Key) -> None:
        """Deletes everything of a document that is older than its current version."""
        newest = (await self.stored({key.id})).get(key.id)
        if newest is not None:
            await self._store.delete(where=older_where(key.id, newest.version))

    async def discard(self, key: Key, version: int) -> None:
        """Deletes what was written of a version that was given up."""
        await self._store.delete(where=Where(equal={"key": key.id, "version": version}))

    async def row(self, key: Key, version: int) -> dict[str, Any] | None:
        """The columns that a version of a document was made of, if it was made of a row."""
        found = await self._store.get([row_id(key, version)])
        row: dict[str, Any] | None = msgspec.json.decode(found[0].payload["row"]) if found else None
        return row

    async def floor(self, origin: str) -> int:
        """The version at which a table was last emptied, 0 if it never was."""
        found = await self._store.scroll(floors_where(origin), SPARE)
        return max((int(point.payload["version"]) for point in found), default=0)

    async def empty_table(self, origin: str, version: int) -> None:
        """Deletes what was made of a table's rows before a version, for good: the floor comes first, and whoever makes
        an older version current looks at it afterwards."""
        await self._store.upsert([floor_point(origin, version)])
        await self._store.delete(where=emptied_where(origin, version))

    async def search(
        self,
        vector: Vector,
        tenant: str,
        collections: list[str],
        fields: dict[str, Scalar | list[Scalar]],
        limit: int,
        *,
        question: str = "",
    ) -> list[Passage]:
        """The passages of current versions nearest to the vector and, where words count, to those of the question; best
        first, `limit` of them if there are as many.

        Both branches are searched with the same filter and joined here: what they find is of one moment.
        """
        branches = self._branches(vector, tenant, collections, fields, question)
        width = WIDTH * limit + SPARE // 4
        known: dict[str, Manifest] = {}
        found: list[Passage] = []
        for _ in range(SEARCHES):
            legs = await asyncio.gather(*(branch(width) for branch in branches))
            complete = all(len(leg) < width for leg in legs) or width >= MAX_WIDTH
            legs = [[match for match in leg if belongs(match, tenant, collections)] for leg in legs]
            matches = [match for leg in legs for match in leg]
            stored = await self.stored({match.payload["key"] for match in matches})
            manifests = without(stored, self.hidden)
            found = self._joined([passages(leg, manifests) for leg in legs], tenant)[:limit]
            moved = overtaken(matches, manifests, known)
            known |= manifests
            if not moved and (complete or len(found) == limit):
                break
            width = width if moved else min(4 * width, MAX_WIDTH)
        return found

    def _branches(
        self,
        vector: Vector,
        tenant: str,
        collections: list[str],
        fields: dict[str, Scalar | list[Scalar]],
        question: str,
    ) -> list[Branch]:
        """The searches of a question: by vectors, and by words if they count anywhere and every chunk has them."""
        where = chunks_where(tenant, collections, fields)
        branches: list[Branch] = [lambda width: self._store.search(vector, where, width)]
        if self._blend is None or not any(self._blend.of(tenant, name) for name in collections):
            return branches
        terms = question_terms(question)
        if len(terms.ids) and not self.wordless:
            corpus = corpus_where(tenant, collections)
            branches.append(lambda width: self._store.search_terms(terms, where, corpus, width))
        return branches

    def _joined(self, legs: list[list[Passage]], tenant: str) -> list[Passage]:
        if len(legs) == 1 or self._blend is None:
            return legs[0]
        blend = self._blend
        found = {passage.id: passage for leg in reversed(legs) for passage in leg}
        dense, lexical = ({passage.id: passage.score for passage in leg} for leg in legs)
        order = fused(dense, lexical, lambda id_: blend.of(tenant, found[id_].collection))
        return [msgspec.structs.replace(found[id_], score=round(score, 6)) for id_, score in order.items()]

    async def compared(self, found: list[Passage], tenant: str, question: Vector) -> list[Passage]:
        """The passages with those of their sentences whose vectors are stored, compared with the question."""
        ids = [
            sentences_id(Key(tenant, one.collection, one.document), one.version, int(one.id.rpartition("#")[2]))
            for one in found
        ]
        stored = {point.id: point.payload for point in await self._store.get(ids)} if ids else {}
        return [
            compared(one, stored[name], question) if name in stored else one
            for one, name in zip(found, ids, strict=True)
        ]

    async def holds(self, tenant: str, collection: str) -> bool:
        """Whether a collection of a tenant holds any document."""
        where = Where(equal={"kind": "manifest", "collection": collection, "tenant": tenant}, unequal={"deleted": True})
        return bool(await self._store.scroll(where, 1))

    async def sizes(self) -> tuple[int, int]:
        """How many documents and chunks there are, of all tenants."""
        documents = Where(equal={"kind": "manifest"}, unequal={"deleted": True})
        return await self._store.count(documents), await self._store.count(Where(equal={"kind": "chunk"}))

    async def close(self) -> None:
        """Closes the store."""
        if self._words is not None:
            await self._words.close()
        await self._store.close()
