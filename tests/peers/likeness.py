"""Vectors that lie as those of questions do: in groups, and in few of their many directions."""

import numpy as np

from hasten.vectors.store import Vector

GROUP = 25
DIRECTIONS = 40
"""Of 384 directions, the embeddings of 28,000 real questions fill about as many (their participation ratio)."""


def alike(count: int, dim: int = 384, seed: int = 0) -> Vector:
    """Unit rows in groups of about `GROUP`, whose nearest neighbours have a cosine similarity of about .85."""
    random = np.random.default_rng(seed)
    spread = (1 / (1 + np.arange(dim) / DIRECTIONS) ** 1.5).astype(np.float32)
    turned, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((dim, dim)))
    middles = random.standard_normal((max(1, count // GROUP), dim)) * spread
    rows = middles[random.integers(0, len(middles), count)] + 0.45 * random.standard_normal((count, dim)) * spread
    rows = (rows @ turned).astype(np.float32)
    made: Vector = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return made


def asked(rows: Vector, count: int, seed: int = 9) -> Vector:
    """Unit vectors near some of these rows, as other wordings of stored questions are."""
    random = np.random.default_rng(seed)
    chosen = rows[random.integers(0, len(rows), count)]
    others = rows[random.integers(0, len(rows), count)]
    near = chosen + np.float32(0.3) * others
    made: Vector = near / np.linalg.norm(near, axis=1, keepdims=True)
    return made
