"""Vectors of one byte a number: small, near what they were, and refused when they are none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.quantised import SCALE_BYTES, quantised, restored


@given(st.integers(0, 12), st.integers(1, 400), st.integers(0, 2**32 - 1))
def test_vectors_come_back_as_near_as_their_steps(count: int, dim: int, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)
    raw = quantised(rows)
    assert len(raw) == count * (dim + SCALE_BYTES)
    found = restored(raw, dim)
    assert found.shape == rows.shape
    largest = np.abs(rows).max(axis=1, initial=0)
    assert (np.abs(found - rows).max(axis=1, initial=0) <= largest / 127 * 0.501 + 1e-6).all()


def test_zeros_stay_zeros() -> None:
    assert not restored(quantised(np.zeros((2, 5), np.float32)), 5).any()
    assert restored(b"", 5).shape == (0, 5)


@pytest.mark.parametrize("raw", [b"x", b"12345678", np.float32(np.nan).tobytes() + b"12345"])
def test_what_is_no_vector_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"whole number|finite"):
        restored(raw, 5)
