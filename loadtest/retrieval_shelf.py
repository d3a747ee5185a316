"""The documents of one data set in the real embedded store, searched by the retriever's own library."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hasten.messages.retrieve import Document, Passage
from hasten.retriever.chunking import Chunk, chunks
from hasten.retriever.fusion import Blend
from hasten.retriever.library import Library
from hasten.retriever.parent import leaning
from hasten.retriever.records import INDEXES, Key, chunk_point, embedding_text, manifest_of, manifest_point
from hasten.retriever.settings import Settings
from hasten.vectors.edge import EdgeStore
from hasten.vectors.store import Match, Point, Terms, Vector, VectorStore, Where
from loadtest.retrieval_sets import Corpus, Question
from loadtest.vector_file import VectorFile

TENANT = "quality"
LIMIT = 24
"""Passages per question: what reranking reads, and more than 4,000 characters."""
SLICE = 500


class Remembering:
    """The searches of a store, each made once: what is tried on the same findings is not searched for again."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._found: dict[bytes, list[Match]] = {}
        self._listed: dict[str, list[Point]] = {}

    async def search(self, vector: Vector, where: Where, limit: int) -> list[Match]:
        """See VectorStore."""
        key = b"v" + vector.tobytes() + repr((where, limit)).encode()
        if key not in self._found:
            self._found[key] = await self._store.search(vector, where, limit)
        return self._found[key]

    async def search_terms(self, terms: Terms, where: Where, corpus: Where, limit: int) -> list[Match]:
        """See VectorStore."""
        key = b"t" + terms.ids.tobytes() + repr((where, corpus, limit)).encode()
        if key not in self._found:
            self._found[key] = await self._store.search_terms(terms, where, corpus, limit)
        return self._found[key]

    async def scroll(
        self, where: Where, limit: int, fields: list[str] | None = None, *, vectors: bool = False
    ) -> list[Point]:
        """See VectorStore."""
        key = repr((where, limit, fields, vectors))
        if key not in self._listed:
            self._listed[key] = await self._store.scroll(where, limit, fields, vectors=vectors)
        return self._listed[key]


class Shelf:
    """A store in `folder` with a corpus cut and weighed as the settings say; `open` fills it."""

    def __init__(self, corpus: Corpus, vectors: VectorFile, folder: Path, settings: Settings) -> None:
        self.corpus, self.settings = corpus, settings
        self._vectors, self._store = vectors, EdgeStore(folder)
        self.remembered = Remembering(self._store)
        self.chunks = 0
        asked = [one.text for one in corpus.questions]
        self._asked = dict(zip(asked, vectors.of(asked, f"{corpus.name}, questions"), strict=True))

    async def open(self, dim: int) -> None:
        """Fills the store with the points that the retriever's writer makes."""
        await self._store.open(dim, INDEXES, terms=True)
        waiting: list[Point] = []
        for collection, documents in self.corpus.documents.items():
            cut = [
                chunks(one.text, one.media_type, title=one.title, passage_chars=self.settings.passage_chars)
                for one in documents
            ]
            texts = [embedding_text(one, chunk) for one, found in zip(documents, cut, strict=True) for chunk in found]
            rows = self._vectors.of(texts, self.corpus.name)
            for document, found in zip(documents, cut, strict=True):
                own, rows = rows[: len(found)], rows[len(found) :]
                waiting += self._points(Key(TENANT, collection, document.id), document, found, own)
            self.chunks += len(texts)
        for start in range(0, len(waiting), SLICE):
            await self._store.upsert(waiting[start : start + SLICE])

    def _points(self, key: Key, document: Document, found: list[Chunk], own: Vector) -> list[Point]:
        stored = leaning(found, list(own), self.settings.parent_weight)
        made = [chunk_point(key, 1, document, chunk, stored[chunk.number], words=True) for chunk in found]
        return [*made, manifest_point(key, manifest_of(document, 1, len(found)))]

    async def orders(
        self, questions: Sequence[Question], weight: float | None, *, timed: bool = False
    ) -> tuple[list[list[Passage]], list[float]]:
        """The passages of each question and how long each search took (ms), the embedding of the question left out.

        `weight` is how much words count, None searches by vectors alone. Untimed searches are made once per question.
        """
        store: Any = self._store if timed else self.remembered
        library = Library(store, None if weight is None else Blend(weight=weight))
        found, took = list[list[Passage]](), list[float]()
        for one in questions:
            began = time.perf_counter()
            order = await library.search(self._asked[one.text], TENANT, [one.collection], {}, LIMIT, question=one.text)
            took.append(1000 * (time.perf_counter() - began))
            found.append(order)
        return found, took

    async def close(self) -> None:
        """Ends the store's process."""
        await self._store.close()


def times(took: Sequence[float]) -> tuple[float, float]:
    """p50 and p95 in milliseconds."""
    low, high = np.percentile(took, [50, 95])
    return round(float(low), 1), round(float(high), 1)
