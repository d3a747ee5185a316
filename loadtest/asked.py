"""Graded questions with their vectors and surface values, ready to fit and to guess."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hasten.router.difficulty import Difficulty, estimate
from hasten.router.estimator import Estimator, Floats
from hasten.router.surface import surface
from loadtest.embedding import Embedding
from loadtest.graded import Graded

Flags = NDArray[np.bool_]


class Asked(NamedTuple):
    """n questions: vectors (n × d), surface values (n × f), gains (n)."""

    rows: list[Graded]
    vectors: Floats
    values: Floats
    gains: NDArray[np.float64]

    @classmethod
    def of(cls, rows: list[Graded], embedding: Embedding) -> Self:
        """The questions, embedded."""
        vectors = embedding.of([row.text for row in rows], "questions")
        return cls(
            rows,
            np.array([vectors[row.text] for row in rows], dtype=np.float32),
            np.array([surface(row.text) for row in rows], dtype=np.float32),
            np.array([row.gain for row in rows], dtype=np.float64),
        )

    def part(self, flags: Flags) -> Self:
        """Those of the questions whose flag is set."""
        rows = [row for row, flag in zip(self.rows, flags, strict=True) if flag]
        return type(self)(rows, self.vectors[flags], self.values[flags], self.gains[flags])

    def among(self, name: str) -> Flags:
        """The flags of a data set's questions."""
        return np.array([row.data == name for row in self.rows])

    def decided(self, estimator: Estimator) -> list[Difficulty]:
        """What the router says of each question."""
        return [
            estimate(row.text, vector.astype("<f4").tobytes(), estimator=estimator)
            for row, vector in zip(self.rows, self.vectors, strict=True)
        ]
