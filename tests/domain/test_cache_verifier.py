"""The verifier: what raises and lowers the confidence, the artefact, and the fit that made it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.cache.guards import Reading
from hasten.cache.judgement import judged
from hasten.cache.settings import Settings
from hasten.cache.signs import Signs, signs
from hasten.cache.verifier import SIGNS, logistic, shipped
from loadtest.curve import at, best, crossed, learnt
from loadtest.pairs import Pair
from loadtest.verifying import REFUSED, fit, nested, scores
from loadtest.verifying import judged as judge_pairs

WEIGHTS = shipped().weights


@given(st.floats(-1, 1), st.floats(-1, 1), st.sampled_from(SIGNS))
def test_more_similar_is_never_less_likely_and_a_sign_of_difference_never_helps(
    one: float, other: float, name: str
) -> None:
    none, some = Signs(), Signs(**{name: 1.0})
    assert (WEIGHTS.log_odds(none, one) <= WEIGHTS.log_odds(none, other)) or one > other
    helps = WEIGHTS.log_odds(some, one) - WEIGHTS.log_odds(none, one)
    assert helps > 0 if name == "alike" else helps <= 0
    assert WEIGHTS.log_odds(some, one) <= math.log(max(1e-300, WEIGHTS.most(one)) / (1 - WEIGHTS.most(one))) + 1e-6


@given(st.floats(-700, 700))
def test_a_probability_is_one(odds: float) -> None:
    assert 0 <= logistic(odds) <= 1
    assert logistic(odds) == pytest.approx(1 - logistic(-odds))


@pytest.mark.parametrize(
    ("one", "other", "sign"),
    [
        ("How do I archive alerts?", "How do I forward alerts?", "near"),
        ("How do I cook rice?", "How do I cook rice at home?", "things"),
        ("When does the pool open in town?", "Where in town is there a pool?", "whether"),
        ("What causes rust on old cars?", "How do you treat old cars that are rusty?", "aspect"),
        ("How do I open the lid?", "How can I open the lid?", "alike"),
    ],
)
def test_what_differs_shows(one: str, other: str, sign: str) -> None:
    assert getattr(signs(Reading(one), Reading(other)), sign) > 0


def test_a_guard_comes_before_any_confidence() -> None:
    one, other = Reading("Is ticket 48213 still open?"), Reading("Is ticket 48231 still open?")
    found = judged(one, other, 1.0, 0.0, WEIGHTS)
    assert (found.reason, found.guard, found.confidence) == ("guard", "numbers", None)


def test_the_shipped_default_is_stricter_than_the_report_needs() -> None:
    points = shipped().report["points"]
    assert isinstance(points, dict)
    for curve in ("kept_out_by_question", "kept_out_by_question_and_kind_of_trap"):
        assert logistic(points[curve]["at_most_1%"]["log_odds"]) <= Settings().threshold
        assert points[curve]["at_most_1%"]["good_hits"] >= 0.35


SAME = np.array([True, True, False, True, False, True])
SCORES = np.array([5.0, 4.0, 3.0, 2.0, 1.0, REFUSED])


def test_a_point_counts_hits_answerable_pairs_and_traps() -> None:
    found = at(SCORES, SAME, 2.0)
    assert (found.right, found.wrong, found.answerable, found.traps) == (3, 1, 4, 2)
    assert (found.hit_rate, found.wrong_rate, found.trap_rate) == (0.75, 0.25, 0.5)


def test_the_best_threshold_keeps_the_error_and_refused_pairs_out() -> None:
    assert best(SCORES, SAME, 0.0, REFUSED).threshold == 4.0
    assert best(SCORES, SAME, 0.25, REFUSED).threshold == 2.0
    assert best(SCORES, SAME, 1.0, REFUSED).right == 3
    assert best(np.array([1.0]), np.array([False]), 0.1).right == 0


def test_a_learnt_threshold_has_not_seen_its_own_pairs() -> None:
    folds = np.array([0, 1, 0, 1, 0, 1])
    found = crossed(SCORES, SAME, folds, 0.2, REFUSED)
    assert (found.right, found.wrong) == (1, 1), "each half learns from the other, whose traps it does not know"
    assert learnt(SCORES, SAME, 0.2) == 4.0
    assert learnt(SCORES, SAME, 0.01) == np.inf


def test_the_fit_finds_what_tells_pairs_apart_and_never_rewards_a_difference() -> None:
    colours = ("red", "blue", "green", "grey", "black", "white", "brown", "pink")
    pairs = [Pair(a=f"Is the {one} car fast?", b=f"Is the {one} car quick?", same=True) for one in colours]
    pairs += [Pair(a=f"Is the {one} car fast?", b=f"Is the car fast at {one} lights?", same=False) for one in colours]
    vectors = {text: np.array([1.0, 0.0], np.float32) for pair in pairs for text in (pair.a, pair.b)}
    cases = judge_pairs(pairs, vectors, Settings())
    weights = fit(cases)
    assert weights.alike > 0
    assert all(getattr(weights, name) <= 0 for name in SIGNS if name != "alike")
    assert fit(cases) == weights
    kept = [case.refusal is None for case in cases]
    assert (scores(cases, weights) > REFUSED).tolist() == kept
    assert (nested(cases) > REFUSED).tolist() == kept
