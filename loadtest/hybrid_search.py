"""`python -m loadtest.hybrid_search`: how long a search of one tenant's chunks takes by vectors, by words, and by both.

The chunks are made up, for their number and not for what they say: vectors around topics, as the other benchmarks have
them, and words drawn as often as those of a language (the n-th most frequent 1/n as often). It measures speed and
recall against an exact scan, never quality; `--json` prints one object.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasten.bench.likeness import alike
from hasten.retriever.bm25 import document_terms, question_terms
from hasten.retriever.fusion import Blend
from hasten.retriever.library import Library
from hasten.retriever.records import INDEXES, Key, Manifest, manifest_point
from hasten.vectors.edge import EdgeStore
from hasten.vectors.store import Point, Where

DIM, CHUNKS_PER_DOCUMENT, WORDS, VOCABULARY, ASKED = 384, 10, 60, 50_000, 8
LIMIT, SLICE, MINE = 8, 500, "acme"
Search = Callable[[int], Awaitable[Any]]


class Made:
    """Chunks and questions of one seed; a third of the chunks is in the collection `help`, the rest in `news`."""

    def __init__(self, count: int, questions: int) -> None:
        self._random = np.random.default_rng(11)
        share = 1 / np.arange(1, VOCABULARY + 1)
        self._share = share / share.sum()
        rows = alike(count + questions)
        self.rows, self.asked = rows[:count], rows[count:]
        self.texts = [self._text(WORDS) for _ in range(count)]
        self.questions = [self._text(ASKED) for _ in range(questions)]

    def _text(self, words: int) -> str:
        return " ".join(_word(int(n)) for n in self._random.choice(VOCABULARY, size=words, p=self._share))

    def point(self, number: int) -> Point:
        """A chunk as the retriever writes it; ten make a document."""
        collection = "help" if number % 3 == 0 else "news"
        key = Key(MINE, collection, f"d{number // (3 * CHUNKS_PER_DOCUMENT)}")
        payload = {"kind": "chunk", "tenant": MINE, "collection": collection, "document": key.document, "key": key.id}
        about = {"version": 1, "passage": number, "start": 0, "end": 1, "heading": "", "meta": {}, "terms_version": 1}
        return Point(
            id=str(uuid.UUID(int=number)),
            vector=self.rows[number],
            terms=document_terms(self.texts[number]),
            payload={**payload, **about, "text": self.texts[number]},
        )


def _word(number: int) -> str:
    """A word of letters that no stemming shortens."""
    return "".join("bcdfghjk"[int(digit)] for digit in f"{number:o}") + "ao"


async def _fill(store: EdgeStore, made: Made) -> None:
    keys = set[tuple[str, str]]()
    for start in range(0, len(made.texts), SLICE):
        points = [made.point(number) for number in range(start, min(start + SLICE, len(made.texts)))]
        keys |= {(point.payload["collection"], point.payload["document"]) for point in points}
        await store.upsert(points)
    manifests = [manifest_point(Key(MINE, *key), Manifest(version=1, chunks=10)) for key in sorted(keys)]
    for start in range(0, len(manifests), SLICE):
        await store.upsert(manifests[start : start + SLICE])
    await store.optimize()


async def _timed(search: Search, count: int) -> dict[str, float]:
    """Milliseconds, one search after the other."""
    took = []
    for number in range(count):
        began = time.perf_counter()
        await search(number)
        took.append(1000 * (time.perf_counter() - began))
    return {"p50_ms": round(statistics.median(took), 2), "p95_ms": round(float(np.percentile(took, 95)), 2)}


async def _recall(store: EdgeStore, made: Made, collections: list[str]) -> float:
    """The share of the ten nearest of an exact scan that a filtered search finds."""
    allowed = np.array([("help" if n % 3 == 0 else "news") in collections for n in range(len(made.texts))])
    where = Where(equal={"kind": "chunk", "collection": list(collections), "tenant": MINE})
    found = 0
    for query in made.asked:
        scores: NDArray[np.float32] = np.where(allowed, made.rows @ query, -2)
        best = {str(uuid.UUID(int=int(n))) for n in np.argsort(-scores)[:10]}
        found += len(best & {match.id for match in await store.search(query, where, 10)})
    return round(found / (10 * len(made.asked)), 4)


async def measured(folder: Path, count: int, questions: int) -> dict[str, Any]:
    """All figures of a collection of `count` chunks in `folder`."""
    made = Made(count, questions)
    store = EdgeStore(folder)
    await store.open(DIM, INDEXES, terms=True)
    began = time.perf_counter()
    await _fill(store, made)
    figures: dict[str, Any] = {"chunks": count, "questions": questions}
    figures["filled_s"] = round(time.perf_counter() - began, 1)
    for name, collections in (("one collection of two", ["help"]), ("both collections", ["help", "news"])):
        where = Where(equal={"kind": "chunk", "collection": list(collections), "tenant": MINE})
        figures[name] = {
            "vectors": await _timed(_by_vectors(store, made, where), questions),
            "words": await _timed(_by_words(store, made, where), questions),
            "passages by vectors": await _timed(_library(store, made, collections, None), questions),
            "passages by both": await _timed(_library(store, made, collections, Blend()), questions),
            "recall@10 by vectors": await _recall(store, made, collections),
        }
    await store.close()
    return figures


def _by_vectors(store: EdgeStore, made: Made, where: Where) -> Search:
    return lambda number: store.search(made.asked[number], where, 3 * LIMIT)


def _by_words(store: EdgeStore, made: Made, where: Where) -> Search:
    return lambda number: store.search_terms(question_terms(made.questions[number]), where, where, 3 * LIMIT)


def _library(store: EdgeStore, made: Made, collections: list[str], blend: Blend | None) -> Search:
    """What the retriever does for a question, in a store that is open."""
    library = Library(store, blend)
    return lambda number: library.search(
        made.asked[number], MINE, collections, {}, LIMIT, question=made.questions[number]
    )


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hasten-hybrid-") as folder:
        figures = asyncio.run(measured(Path(folder) / "passages", asked.chunks, asked.questions))
    if asked.json:
        json.dump(figures, sys.stdout)
        return
    for name, value in figures.items():
        if not isinstance(value, dict):
            print(f"{name}: {value}")
            continue
        print(f"{name}:")
        for what, took in value.items():
            print(f"  {what:22} {took if isinstance(took, float) else '  '.join(f'{k} {v}' for k, v in took.items())}")


if __name__ == "__main__":
    main()
