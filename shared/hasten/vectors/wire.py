"""What an EdgeStore says to its engine process: frames of MessagePack over a socket pair, answered in order."""

import struct
from typing import Any

import msgspec
import numpy as np

from hasten.vectors.store import IndexKind, Point, Terms, Where

LENGTH = struct.Struct("<I")
OK, REFUSED = b"\x00", b"\x01"
"""The first byte of a reply; what follows is the result, or the text of a StoreError."""


class Request(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One call of the shard; the replies are what the shard's methods return."""


class Sparse(msgspec.Struct, frozen=True, array_like=True):
    """Terms as little-endian uint32 and float32."""

    ids: bytes
    weights: bytes


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A Point with its vector as little-endian float32."""

    id: str
    vector: bytes | None
    payload: dict[str, Any]
    terms: Sparse | None = None


class Open(Request, frozen=True):
    """Creates or loads the collection; answered with Opened."""

    dim: int
    indexes: dict[str, IndexKind]
    terms: bool = False


class Copy(Request, frozen=True):
    """Copies another generation to where this engine has none yet, and from then on leaves others the processor."""

    source: str
    nice: int


class Opened(msgspec.Struct, frozen=True, array_like=True):
    """Which indexes were made, and about how many points are in no graph."""

    made: list[str]
    loose: int


class Upsert(Request, frozen=True):
    """Inserts or replaces rows."""

    rows: list[Row]


class Get(Request, frozen=True):
    """Reads rows by id."""

    ids: list[str]
    vectors: bool = False


class Search(Request, frozen=True):
    """Finds the nearest points; answered with matches."""

    vector: bytes
    where: Where
    limit: int


class SearchTerms(Request, frozen=True):
    """Finds the points that share terms; answered with matches."""

    terms: Sparse
    where: Where
    corpus: Where
    limit: int


class Scroll(Request, frozen=True):
    """Lists rows that match, with these fields of their payloads (None: all)."""

    where: Where
    limit: int
    fields: list[str] | None = None
    vectors: bool = False


class SetTerms(Request, frozen=True):
    """Replaces the terms of points."""

    terms: dict[str, Sparse]


class SetPayload(Request, frozen=True):
    """Merges fields into payloads."""

    ids: list[str]
    payload: dict[str, Any]


class Delete(Request, frozen=True):
    """Deletes by id; answered with how many there were."""

    ids: list[str]


class Count(Request, frozen=True):
    """Counts what matches."""

    where: Where | None


class Optimize(Request, frozen=True):
    """Builds search structures and reclaims room; takes minutes for a large collection."""


class Close(Request, frozen=True):
    """Flushes and closes."""


AnySearch = Search | SearchTerms | Scroll | Get | Count
AnyWrite = Upsert | SetTerms | SetPayload | Delete
AnyRequest = Copy | Open | AnySearch | AnyWrite | Optimize | Close
WRITES = (Upsert, SetTerms, SetPayload, Delete)
encode = msgspec.msgpack.Encoder().encode


def frame(*parts: bytes) -> bytes:
    """The parts as one frame."""
    body = b"".join(parts)
    return LENGTH.pack(len(body)) + body


def row_of(point: Point) -> Row:
    """A point as it travels."""
    vector = None if point.vector is None else np.asarray(point.vector, dtype="<f4").tobytes()
    terms = None if point.terms is None else sparse_of(point.terms)
    return Row(id=point.id, vector=vector, payload=point.payload, terms=terms)


def point_of(row: Row) -> Point:
    """A point as it is used; its vector is read-only."""
    vector = None if row.vector is None else np.frombuffer(row.vector, dtype="<f4")
    terms = None if row.terms is None else terms_of(row.terms)
    return Point(id=row.id, vector=vector, terms=terms, payload=row.payload)


def sparse_of(terms: Terms) -> Sparse:
    """Terms as they travel."""
    return Sparse(np.asarray(terms.ids, dtype="<u4").tobytes(), np.asarray(terms.weights, dtype="<f4").tobytes())


def terms_of(sparse: Sparse) -> Terms:
    """Terms as they are used; read-only."""
    return Terms(np.frombuffer(sparse.ids, dtype="<u4"), np.frombuffer(sparse.weights, dtype="<f4"))
