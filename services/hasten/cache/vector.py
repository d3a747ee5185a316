"""Turns the bytes of a message into a unit vector, or says that they are none."""

import numpy as np

from hasten.vectors.store import Vector


def unit_vector(raw: bytes, dim: int) -> Vector | None:
    """`dim` little-endian float32 numbers, scaled to length 1; None for another width, zeros, or numbers not finite."""
    if len(raw) != 4 * dim:
        return None
    vector = np.frombuffer(raw, dtype="<f4")
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or length < 1e-6:
        return None
    return (vector / np.float32(length)).astype(np.float32)
