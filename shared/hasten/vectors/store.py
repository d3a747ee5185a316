"""What the cache and the retriever ask of a vector store; every adapter passes the same conformance suite."""

import contextlib
from collections.abc import Iterator
from typing import Any, Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
Scalar = str | int | float | bool
IndexKind = Literal["keyword", "integer", "float", "bool"]
TENANT = "tenant"
"""The payload field that separates tenants. Graphs join the points of one tenant only, so a search that does not name
the tenant is exact, and slower."""
LINKS = 16
"""Links per point in a tenant's graph."""
EF = 256
"""Candidates of a search in a graph: with a second filter that a third of a tenant's 36,000 points pass, recall@10 was
.98 at 128 and .99 at 256."""
QUANTILE = 0.99
"""Graphs compare vectors of one byte per number; what is beyond this share of the values is cut off."""
OVERSAMPLING = 3.0
"""How many times the wanted points are compared again by their whole vectors: without it recall@5 at 100,000 entries
was .977, with it .994, at the same speed."""


TERMS = "terms"
"""What the terms of a collection are called where it is said which indexes it has."""


class StoreError(RuntimeError):
    """The store cannot do what was asked; the text is one sentence without data."""


@contextlib.contextmanager
def in_one_sentence(verb: str) -> Iterator[None]:
    """Turns an engine's or a client's errors, which can quote payloads, into a StoreError that does not."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(f"the vector store could not {verb} ({type(error).__name__})") from None


class Terms(msgspec.Struct, frozen=True):
    """A sparse vector: what a text says in which words. `ids` are different numbers of 32 bits, one per term, and
    `weights` says as many times how much each counts."""

    ids: NDArray[np.uint32]
    weights: NDArray[np.float32]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A stored vector. `id` is a UUID string; `payload` is a copy that may be changed. `terms` are only for a
    collection that was opened with them."""

    id: str
    vector: Vector | None = None
    terms: Terms | None = None
    payload: dict[str, Any] = {}


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """A point found by a search, with its cosine similarity, or what the terms it shares with a question weigh."""

    id: str
    score: float
    payload: dict[str, Any]


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """A filter, applied inside the search: all of `equal` (a list means any of; list fields match when one element
    does), none of `unequal`, and `above` / `below` as strict bounds on numbers. An empty filter matches everything.

    Every field should have an index: at 10,000 points one without takes 15 ms.
    """

    equal: dict[str, Scalar | list[Scalar]] = {}
    unequal: dict[str, Scalar | list[Scalar]] = {}
    above: dict[str, float] = {}
    below: dict[str, float] = {}


class VectorStore(Protocol):
    """One collection of points with unit vectors (cosine). No method blocks the event loop; writes are applied when
    the call returns. Methods raise StoreError."""

    async def open(self, dim: int, indexes: dict[str, IndexKind], *, terms: bool = False) -> list[str]:
        """Creates the collection, or opens it and mends what it lacks: payload indexes, and with `terms` the index of
        terms (TERMS). Returns the indexes that were made.

        Raises StoreError naming both sizes when the collection has vectors of another width.
        """

    async def upsert(self, points: list[Point]) -> None:
        """Inserts or replaces points by id. A point without a vector is stored and never found by search."""

    async def get(self, ids: list[str]) -> list[Point]:
        """The points that exist among these ids, without vectors."""

    async def search(self, vector: Vector, where: Where, limit: int) -> list[Match]:
        """The nearest points that match the filter, best first."""

    async def search_terms(self, terms: Terms, where: Where, corpus: Where, limit: int) -> list[Match]:
        """The points that match the filter and share terms with the question, best first; exact.

        A score is the sum over the shared terms of both weights and of `log(1 + (N - n + 0.5) / (n + 0.5))`, where N of
        the points with terms match `corpus` and n of those have the term: no point outside of it changes a score.
        """

    async def scroll(
        self, where: Where, limit: int, fields: list[str] | None = None, *, vectors: bool = False
    ) -> list[Point]:
        """Up to `limit` points that match the filter, in no order that means anything; `fields` are those of the
        payload that come along (None: all)."""

    async def set_terms(self, terms: dict[str, Terms]) -> None:
        """Replaces the terms of those of these points that exist; the rest of each stays as it is."""

    async def set_payload(self, ids: list[str], payload: dict[str, Any]) -> None:
        """Merges fields into the payloads of these points."""

    async def delete(self, *, ids: list[str] | None = None, where: Where | None = None) -> int:
        """Deletes by ids or by filter and returns how many points went."""

    async def count(self, where: Where | None = None) -> int:
        """How many points match."""

    async def optimize(self) -> None:
        """Builds search structures for what was written lately; may take long, in a thread."""

    async def close(self) -> None:
        """Flushes and closes."""
