"""Lets a small chunk be found by what surrounds it too: its vector leans towards that of its parent; pure.

A score of chunk + weight × parent is one product of the question with their sum, so the sum is what is stored: the
search itself ranks by it, in any store, and nothing has to be fetched or added up when a question comes.
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from hasten.retriever.chunking import Chunk
from hasten.vectors.store import Vector

REACH = 3
"""How many chunks of the same section on either side belong to a chunk's parent, beside itself."""


def leaning(found: Sequence[Chunk], vectors: Sequence[Vector], weight: float) -> list[Vector]:
    """The unit vectors to store for the chunks of a document: own + `weight` × parent.

    The parent's vector is the mean of its chunks' own, at length 1. A chunk that is alone in its section keeps its own.
    """
    stored: list[Vector] = []
    for _, group in groupby(range(len(found)), lambda at: found[at].section):
        own = np.array([vectors[at] for at in group])
        parents = np.array([own[max(0, at - REACH) : at + REACH + 1].mean(axis=0) for at in range(len(own))])
        stored += list(_unit(own + weight * _unit(parents)))
    return stored


def _unit(rows: Vector) -> Vector:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    made: Vector = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return made
