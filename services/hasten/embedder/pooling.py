"""Vectors of stretches of a text out of the forward pass that made the text's own: the mean of their tokens; pure.

A sentence so pooled knows what it stands in, and costs nothing: on nq_open_oracle it finds the answer as well as one
embedded by itself (`python -m loadtest.sentence_vectors`).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Spans = Sequence[tuple[int, int]]
"""Stretches of one text, in characters: `text[start:end]`."""


def pooled(states: NDArray[np.float32], offsets: Spans, spans: Spans) -> NDArray[np.float32]:
    """The unit vectors (spans × dim) of stretches of a text; zeros where none of its tokens was read.

    `states` are the vectors of the text's tokens, `offsets` the characters each stands for; special tokens stand for
    none. A token belongs to every stretch that it shares a character with.
    """
    starts, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
    rows = np.zeros((len(spans), states.shape[1]), dtype=np.float32)
    for row, (start, end) in zip(rows, spans, strict=True):
        inside = np.minimum(ends, end) > np.maximum(starts, start)
        if inside.any():
            mean = states[: len(inside)][inside].mean(axis=0)
            row[:] = mean / max(float(np.linalg.norm(mean)), 1e-9)
    return rows
