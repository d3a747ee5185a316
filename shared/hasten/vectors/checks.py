"""What every adapter refuses before it reaches an engine, with the same words in all of them."""

import uuid
from collections.abc import Iterable

import numpy as np

from hasten.vectors.store import IndexKind, Point, StoreError, Terms, Vector

KINDS: tuple[IndexKind, ...] = ("keyword", "integer", "float", "bool")


def check_width(have: int, wanted: int, what: str) -> None:
    """Raises StoreError naming both sizes when they differ."""
    if have != wanted:
        raise StoreError(f"{what} has {have} dimensions where {wanted} are expected")


def check_vector(vector: Vector, dim: int) -> None:
    """Raises StoreError unless it is one row of `dim` finite numbers."""
    check_width(int(np.size(vector)), dim, "the vector")
    if not np.isfinite(vector).all():
        raise StoreError("the vector holds numbers that are not finite")


def check_ids(ids: Iterable[str]) -> None:
    """Raises StoreError unless all are UUIDs."""
    for id_ in ids:
        try:
            uuid.UUID(id_)
        except (ValueError, TypeError, AttributeError):
            raise StoreError("the id of a point must be a UUID") from None


def check_terms(terms: Terms, taken: bool) -> None:
    """Raises StoreError unless the collection takes terms and these are different numbers with finite weights."""
    if not taken:
        raise StoreError("the collection was opened without terms")
    if terms.ids.ndim != 1 or terms.ids.shape != terms.weights.shape or terms.ids.dtype != np.uint32:
        raise StoreError("terms need as many weights as ids, which are numbers of 32 bits")
    if len(np.unique(terms.ids)) != len(terms.ids):
        raise StoreError("the terms hold an id twice")
    if not np.isfinite(terms.weights).all():
        raise StoreError("the terms hold weights that are not finite")


def check_points(points: list[Point], dim: int, terms: bool) -> None:
    """Raises StoreError for the first point that cannot be stored; nothing has been written then."""
    check_ids(point.id for point in points)
    for point in points:
        if point.vector is not None:
            check_vector(point.vector, dim)
        if point.terms is not None:
            check_terms(point.terms, terms)


def check_indexes(indexes: dict[str, IndexKind]) -> None:
    """Raises StoreError for a kind of index that does not exist."""
    if unknown := sorted({kind for kind in indexes.values() if kind not in KINDS}):
        raise StoreError(f"there is no payload index of kind {', '.join(unknown)}")
