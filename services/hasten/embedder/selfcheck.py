"""Refuses a model that cannot tell texts apart: with one, a cache would serve anything for everything."""

import numpy as np

from hasten.embedder.encoder import Encoder, EncoderError

RELATED = ("How do I return a parcel?", "What is the way to send a package back?")
UNRELATED = "The tallest waterfall in Peru is in the northern cloud forest."
UNIT = 1e-3
"""How far from 1 the length of a vector may be."""


def check(encoder: Encoder, margin: float) -> None:
    """Raises EncoderError unless vectors are finite, of length 1 and `dim` wide, and the related pair scores by at
    least `margin` (cosine) above each unrelated one; margins near 0 are what constant vectors give."""
    vectors = encoder.encode([*RELATED, UNRELATED]).vectors
    if vectors.shape != (3, encoder.dim) or not np.isfinite(vectors).all():
        raise EncoderError(
            f"the embedding model {encoder.name} gives vectors that are not {encoder.dim} finite numbers"
        )
    if np.abs(np.linalg.norm(vectors, axis=1) - 1).max() > UNIT:
        raise EncoderError(f"the embedding model {encoder.name} gives vectors that are zero or not of unit length")
    related = float(vectors[0] @ vectors[1])
    unrelated = max(float(vectors[0] @ vectors[2]), float(vectors[1] @ vectors[2]))
    if related - unrelated < margin:
        raise EncoderError(
            f"the embedding model {encoder.name} does not tell texts apart: a related pair scores {related:.3f}, "
            f"an unrelated one {unrelated:.3f}"
        )
