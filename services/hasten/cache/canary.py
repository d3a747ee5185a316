"""Notices an embedder that no longer tells texts apart; pure.

With a constant embedder every pair is as near as can be, so that only the guards would stand between a question and
the answer to another. Two questions without a word in common must score below the threshold: when they no longer do,
time after time, hits by meaning stop until they do again.
"""

from collections import deque

import numpy as np

from hasten.vectors.store import Vector

_REMEMBERED = 32
_ENOUGH = 8


class Canary:
    """Compares each new question with some earlier ones that share no meaningful word with it."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._seen: deque[tuple[frozenset[str], Vector]] = deque(maxlen=_REMEMBERED)
        self._verdicts: deque[bool] = deque(maxlen=_ENOUGH)

    @property
    def dead(self) -> bool:
        """Whether the last unrelated pairs all looked alike."""
        return len(self._verdicts) == _ENOUGH and not any(self._verdicts)

    def condemn(self) -> None:
        """Takes the embedder for dead until it tells some pair of questions apart."""
        self._verdicts.extend([False] * _ENOUGH)

    def look(self, words: frozenset[str], vector: Vector) -> None:
        """Takes in a question by its meaningful words and its unit vector."""
        for others, other in self._seen:
            if words and others and words.isdisjoint(others):
                self._verdicts.append(bool(np.dot(vector, other) < self._threshold))
                break
        self._seen.append((words, vector))
