"""A difficulty is a rule's or the estimate's, says which and why, and says so where neither knows the kind of text."""

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.router.difficulty import UNKNOWN, estimate
from hasten.router.estimator import (
    Artefact,
    Estimator,
    apartness,
    directions,
    in_bytes,
    packed,
    shipped,
    standard,
    unpacked,
)
from hasten.router.surface import FEATURES, READ, surface

MANY = len(FEATURES)
EASY, HARD = np.eye(4, dtype=np.float32)[:2]
"""Directions in which a small model is right, and in which it fails, as `made` learns them."""
PLAIN = "Name it."


def made(familiar: float = -1.0) -> Estimator:
    """An estimator of vectors of four numbers with one easy and one hard anchor, both of the form of PLAIN."""
    middle = np.array(surface(PLAIN), dtype=np.float32)
    meanings, forms = in_bytes(np.stack([EASY, HARD]), np.zeros((2, MANY), np.float32))
    return Estimator(
        Artefact(
            axes=np.eye(4, dtype=np.float16),
            middle=middle,
            spread=np.ones(MANY, np.float32),
            meanings=meanings,
            forms=forms,
            weights=np.array([-0.2, 0.4], np.float32),
            plain=np.array([0.05, 0.05], np.float32),
            bias=np.array(0.1, np.float32),
            levels=np.linspace(-0.1, 0.5, 101),
            plain_levels=np.linspace(0, 0.4, 101),
            familiar=np.array(familiar, np.float32),
        )
    )


def raw(vector: Any) -> bytes:
    return np.asarray(vector, "<f4").tobytes()


@pytest.fixture(autouse=True)
def near_five(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two anchors are all there are."""
    monkeypatch.setattr("hasten.router.estimator.NEAREST", 1)


def test_near_failures_is_harder_than_near_successes_and_says_so() -> None:
    easy, hard = (estimate(PLAIN, raw(vector), estimator=made()) for vector in (EASY, HARD))
    assert easy.known
    assert hard.known
    assert hard.score > 0.6 > 0.4 > easy.score
    assert hard.why == "near questions on which a small model fails"
    assert easy.why == "near questions on which a better model gains little"
    assert hard.features["gain"] > hard.features["meaning"] > 0 > easy.features["meaning"]


def test_a_kind_of_text_that_was_never_seen_is_unknown_and_tries_the_small_model() -> None:
    found = estimate(PLAIN, raw(np.eye(4, dtype=np.float32)[2]), estimator=made())
    assert (found.known, found.score, found.features) == (False, UNKNOWN, {})
    assert found.why == "unlike the questions that difficulties are known of"


def test_a_rule_stands_in_for_an_estimate_that_does_not_know() -> None:
    far = raw(np.eye(4, dtype=np.float32)[2])
    found = estimate("Explain why and compare the trade-offs.", far, estimator=made())
    assert (found.known, found.score, found.why) == (True, 0.6, "asks for reasoning")
    assert found.features == {"rule_reasoning": 0.3}


def test_a_firm_rule_bounds_the_estimate_and_a_hint_does_not() -> None:
    loose = made(familiar=-1000.0)
    label = estimate("Classify this", raw(HARD), estimator=loose)
    assert (label.score, label.known) == (0.2, True)
    assert label.why.startswith("asks for a label")
    assert label.features["rule_classification"] < 0
    assert "rule_reasoning" not in estimate("Explain it.", raw(EASY), estimator=loose).features
    assert estimate(PLAIN, raw(EASY), needs=["tools"], estimator=loose).score == 0.5
    assert estimate(PLAIN, raw(HARD), needs=["tools"], estimator=loose).score > 0.5


@pytest.mark.parametrize(
    "vector", [None, b"", b"xyz", raw(np.zeros(4)), raw(np.full(4, np.nan)), raw(np.full(4, 1e38)), raw(np.ones(5))]
)
def test_without_a_usable_vector_the_words_decide_and_nothing_is_claimed(vector: bytes | None) -> None:
    found = estimate(PLAIN, vector, estimator=made())
    assert not found.known
    assert 0 <= found.score <= 1
    assert found.features == {}
    assert estimate("Explain why.", vector, estimator=made()).known


def test_the_parts_are_the_slope_of_the_gain_and_name_high_and_low_values() -> None:
    estimator, values = made(), np.array([surface(PLAIN)], np.float32)
    at = list(FEATURES).index("numbers")
    gain, parts = [], np.zeros(MANY)
    for step in (0.5, 0.501):
        moved = values.copy()
        moved[0, at] += step
        guess = estimator.gains(HARD[None, :], moved)
        gain.append(float(guess.gain[0]))
        parts = guess.parts[0]
    assert parts[at] == pytest.approx((gain[1] - gain[0]) / 0.001 * 0.5, rel=0.1)
    assert np.count_nonzero(parts) == 1


def test_every_feature_has_its_words_and_a_finite_value() -> None:
    assert len({words for feature in FEATURES.values() for words in feature}) == 2 * MANY
    question = 'If half of each patient (3.5% of 1,200) do not improve, what is 1/2 of x = y? {"A"} __'
    telling = f"{question}\nA. 12\nB. 4 particularly long words\n"
    values = dict(zip(FEATURES, surface(telling), strict=True))
    none = dict(zip(FEATURES, surface(""), strict=True))
    assert [name for name, value in values.items() if value == 0] == ["statements", "reasoning", "foreign"]
    assert not any(value for name, value in none.items() if name != "sentences")


@given(st.text(max_size=2000))
@settings(deadline=None)
def test_any_text_has_a_finite_surface(text: str) -> None:
    values = surface(text)
    assert len(values) == MANY
    assert np.isfinite(values).all()


@given(st.text(max_size=300), st.integers(-3, 1000), st.integers(-5, 10**6), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_any_request_gets_a_score_between_0_and_1(text: str, turns: int, tokens: int, seed: int) -> None:
    vector = directions(np.random.default_rng(seed).normal(size=(1, shipped().dim)).astype(np.float32))
    for given_vector in (None, vector[0].astype("<f4").tobytes()):
        found = estimate(text, given_vector, turns, prompt_tokens=tokens)
        assert 0 <= found.score <= 1
        assert found.why


def test_the_reason_never_quotes_the_text() -> None:
    canary = "zebra-4711"
    text = f"Explain {canary} in python, step by step: {canary}"
    assert canary not in repr(estimate(text))
    assert canary not in repr(estimate(text, raw(HARD), estimator=made(familiar=-1000.0)))


def test_the_artefact_is_small_and_survives_the_file() -> None:
    whole = shipped().artefact
    file = packed(whole)
    assert len(file) < 300_000
    assert all(np.array_equal(one, other) for one, other in zip(unpacked(file), whole, strict=True))
    assert whole.forms.shape == (len(whole.weights), MANY), "it was fitted for other features"
    with pytest.raises(ValueError, match="has no axes"):
        unpacked(_other())


def _other() -> bytes:
    import io

    file = io.BytesIO()
    np.savez(file, allow_pickle=False, something=np.zeros(1))
    return file.getvalue()


def test_forms_are_compared_as_their_mean_square_difference() -> None:
    one, other = (
        standard(np.array([[1, 9]], np.float32), np.zeros(2, np.float32), np.ones(2, np.float32)),
        np.array([[0.0, 1.0]], np.float32),
    )
    assert one.tolist() == [[1.0, 3.0]], "cut at 3"
    assert apartness(one, other, (other**2).sum(axis=1)).tolist() == [[2.5]]


@pytest.mark.parametrize("text", ["a" * 1_000_000, "1+" * 500_000, " \n" * 500_000, "\nA. x" * 200_000])
def test_a_huge_text_takes_no_longer_than_its_beginning(text: str) -> None:
    def seconds(text: str) -> float:
        started = time.thread_time()
        surface(text)
        return time.thread_time() - started

    short = min(seconds(text[:READ]) for _ in range(5))
    assert min(seconds(text) for _ in range(5)) < 10 * short + 0.005
