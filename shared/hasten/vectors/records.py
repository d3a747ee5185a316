"""Records of qdrant-client as points."""

import copy
from typing import Any

import numpy as np

from hasten.vectors.store import TERMS, Point, Terms


def copied(payload: dict[str, Any] | None) -> dict[str, Any]:
    """A copy, because the local mode hands out what it keeps."""
    return copy.deepcopy(payload) if payload else {}


def point_of(record: Any) -> Point:
    """A record that was read from the server."""
    named = record.vector if isinstance(record.vector, dict) else {"": record.vector}
    dense, sparse = named.get(""), named.get(TERMS)
    return Point(
        id=str(record.id),
        vector=np.array(dense, dtype=np.float32) if dense else None,
        terms=None if sparse is None else terms_of(sparse),
        payload=copied(record.payload),
    )


def terms_of(sparse: Any) -> Terms:
    """A sparse vector."""
    return Terms(np.array(sparse.indices, dtype=np.uint32), np.array(sparse.values, dtype=np.float32))
