"""A model that cannot tell texts apart must not start."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from hasten.embedder.encoder import Encoded, EncoderError
from hasten.embedder.pooling import Spans
from hasten.embedder.selfcheck import check

DIM = 8


class Fixed:
    """An encoder with these rows, whatever the texts."""

    name, window, dim = "fixed", 256, DIM

    def __init__(self, rows: NDArray[np.float32]) -> None:
        self._rows = rows

    def encode(self, texts: list[str], spans: Sequence[Spans] = ()) -> Encoded:
        """The rows, cut to the number of texts."""
        return Encoded(vectors=self._rows[: len(texts)], tokens=[3] * len(texts), truncated=[False] * len(texts))


def unit(*rows: list[float]) -> NDArray[np.float32]:
    """Rows of length 1 in DIM dimensions."""
    padded = np.array([[*row, *[0.0] * (DIM - len(row))] for row in rows], dtype=np.float32)
    made: NDArray[np.float32] = padded / np.linalg.norm(padded, axis=1, keepdims=True)
    return made


def test_a_model_that_tells_texts_apart_passes() -> None:
    check(Fixed(unit([1, 0.2], [1, 0.3], [0, 1])), 0.15)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (unit([1], [1], [1]), "does not tell texts apart"),
        (unit([1], [0, 1], [1, 1]), "does not tell texts apart"),
        (np.zeros((3, DIM), dtype=np.float32), "zero or not of unit length"),
        (np.full((3, DIM), np.nan, dtype=np.float32), "finite"),
        (unit([1, 0.2], [1, 0.3], [0, 1]) * 2, "zero or not of unit length"),
        (unit([1, 0.2], [1, 0.3], [0, 1])[:, :4], "finite numbers"),
    ],
    ids=["constant", "related-below-unrelated", "zero", "nan", "not-unit", "narrow"],
)
def test_a_degenerate_model_is_refused_in_one_sentence(rows: NDArray[np.float32], reason: str) -> None:
    with pytest.raises(EncoderError, match=reason) as refused:
        check(Fixed(rows), 0.15)
    assert "\n" not in str(refused.value)
