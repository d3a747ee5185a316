"""A chunk's stored vector: its own, leaning towards what surrounds it in its section."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.retriever.chunking import Chunk
from hasten.retriever.parent import REACH, leaning
from hasten.vectors.store import Vector

DIM = 16


def laid_out(sections: list[int]) -> list[Chunk]:
    """Chunks of these sections, of one character each."""
    return [
        Chunk(number=at, start=at, end=at + 1, section=section, heading="", passage=0, passage_start=0, passage_end=1)
        for at, section in enumerate(sections)
    ]


def vectors(count: int) -> list[Vector]:
    """Unit vectors in all directions."""
    rows = np.random.default_rng(5).normal(size=(count, DIM))
    return list((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))


@given(st.lists(st.integers(0, 5), max_size=40).map(sorted), st.floats(0, 3))
def test_the_score_is_that_of_the_chunk_and_its_parent_added_up(sections: list[int], weight: float) -> None:
    found, own = laid_out(sections), vectors(len(sections))
    stored = leaning(found, own, weight)
    question = vectors(1)[0]
    assert len(stored) == len(found)
    for at, vector in enumerate(stored):
        around = range(max(0, at - REACH), min(len(found), at + REACH + 1))
        parent = np.mean([own[other] for other in around if sections[other] == sections[at]], axis=0)
        parent /= np.linalg.norm(parent)
        both = float(question @ own[at] + weight * (question @ parent))
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
        assert float(question @ vector) == pytest.approx(both / np.linalg.norm(own[at] + weight * parent), abs=1e-4)


def test_without_weight_and_without_neighbours_a_chunk_keeps_its_vector() -> None:
    own = vectors(4)
    assert np.allclose(leaning(laid_out([0, 0, 0, 0]), own, 0.0), own, atol=1e-6)
    assert np.allclose(leaning(laid_out([0, 1, 2, 3]), own, 0.7), own, atol=1e-6)


def test_a_zero_vector_stays_finite() -> None:
    none = [np.zeros(DIM, dtype=np.float32)] * 3
    assert np.isfinite(leaning(laid_out([0, 0, 0]), none, 0.7)).all()
