"""How the measurement of a cascade counts: what is right, what an AUC is, what escalating by a sign brings."""

import random

import pytest

from hasten.messages.generate import Confidence
from loadtest.cascade import Answered, Asked, auc, curve, doubts, interval, is_right, report


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Wilhelm Conrad Röntgen.", True),
        ("It was wilhelm conrad röntgen, in 1901", True),
        ("Wilhelm Conrad", False),
        ("", False),
        ("Röntgenium", False),
    ],
)
def test_an_answer_is_right_when_it_holds_an_accepted_one(text: str, right: bool) -> None:
    assert is_right(text, ["", "Wilhelm Conrad Röntgen"]) is right


def test_an_auc_is_the_chance_that_a_wrong_answer_is_doubted_more() -> None:
    assert (auc([-3.0, -2.0], [-1.0]), auc([-1.0], [-1.0]), auc([-1.0], [-3.0, -2.0])) == (1.0, 0.5, 0.0)


def asked(mean: float, small: bool, strong: bool, text: str = "Rome", reason: str = "stop") -> Asked:
    sure = Confidence(tokens=3, mean_logprob=mean, min_logprob=2 * mean)
    draft = Answered(text=text, finish_reason=reason, first=sure, whole=sure, right=small)
    return Asked(small=draft, strong=Answered(right=strong))


ALL = [asked(-0.1 * at, small=at < 5, strong=True) for at in range(10)]


def test_a_perfect_sign_escalates_the_wrong_answers_first() -> None:
    rows = {row["escalated"]: row for row in curve(ALL)}
    assert (rows[0.0]["right"], rows[0.5]["right"], rows[0.5]["at_random"]) == (0.5, 1.0, 0.75)
    assert (rows[0.2]["were_wrong"], rows[1.0]["were_wrong"], rows[0.2]["bound"]) == (1.0, 0.5, -0.7)
    assert (rows[0.2]["ideal"], rows[0.2]["ideal_at_random"]) == (0.7, 0.6)


def test_the_report_holds_each_sign() -> None:
    found = report(ALL)
    assert (found["right"], found["only_strong_right"], found["signs"]["mean log-probability"]["auc"]) == (
        [0.5, 1.0],
        5,
        1.0,
    )
    low, high = interval([(float(at), at % 3 > 0) for at in range(60)], random.Random(1))
    assert 0.3 < low < 0.5 < high < 0.7


def test_the_other_signs_are_counted_with_how_often_they_were_right() -> None:
    drafts = [
        asked(-1, small=False, strong=True, text="I don't know."),
        asked(-1, small=True, strong=True, reason="length"),
        asked(-1, small=True, strong=True),
    ]
    assert doubts(drafts) == {"refusal": [1, 1], "truncated": [1, 0]}
