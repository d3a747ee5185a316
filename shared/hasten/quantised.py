"""Unit vectors in a quarter of their size: one byte a number, and one scale for each vector; pure.

`python -m loadtest.sentence_vectors`: the sentence with the answer is first in .545 of cases, .548 with whole numbers.
"""

import numpy as np
from numpy.typing import NDArray

SCALE_BYTES = 4
_STEPS = 127


def quantised(rows: NDArray[np.float32]) -> bytes:
    """Vectors (count × dim) one after the other: the scale as a little-endian float32, then `dim` signed bytes."""
    scales = np.abs(rows).max(axis=1, initial=0.0).astype("<f4") / _STEPS
    steps = np.rint(rows / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8)
    return np.hstack([scales.astype("<f4")[:, None].view(np.int8), steps]).tobytes() if len(rows) else b""


def restored(raw: bytes, dim: int) -> NDArray[np.float32]:
    """The vectors (count × dim) again; raises ValueError for bytes that are no such vectors of `dim` finite numbers."""
    if len(raw) % (dim + SCALE_BYTES):
        raise ValueError(f"{len(raw)} bytes are no whole number of vectors of {dim} numbers")
    rows = np.frombuffer(raw, dtype=np.int8).reshape(-1, dim + SCALE_BYTES)
    scales = rows[:, :SCALE_BYTES].copy().view("<f4")
    if not np.isfinite(scales).all():
        raise ValueError("a scale is not finite")
    made: NDArray[np.float32] = rows[:, SCALE_BYTES:] * scales
    return made
