"""The difficulty rule orders what people would order, explains itself, and stays quick on anything."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.router.difficulty import FEATURES, estimate

EASY = [
    "What is the price of the Basic plan?",
    "How much does express delivery cost?",
    "Who wrote Peer Gynt?",
    "Translate 'good morning' into Norwegian",
    "Extract the invoice number from this text: invoice 48213 of 3 May",
    "Classify the sentiment: I love it",
]
HARD = [
    "Explain why the two pricing models differ and compare their trade-offs for a small team.",
    "Prove that the square root of 2 is irrational, then derive the same for 3.",
    "Write a Python function that merges overlapping intervals, then explain its algorithm.",
    "Design a rate limiter for three regions. What if one of them is cut off? How would you evaluate it?",
    "Solve 3x + 12 = 48 step by step and calculate what percentage of 48 that is.",
]


@pytest.mark.parametrize("easy", EASY)
def test_what_can_be_looked_up_is_easier_than_what_must_be_thought_out(easy: str) -> None:
    assert estimate(easy).score < 0.4
    assert estimate(easy).score < min(estimate(hard).score for hard in HARD)


@pytest.mark.parametrize("hard", HARD)
def test_what_must_be_thought_out_is_hard(hard: str) -> None:
    assert estimate(hard).score > 0.4


def test_the_features_and_the_reason_say_what_was_seen() -> None:
    found = estimate("Explain why this Python function is slow, and compare it with the other.")
    assert {"reasoning", "code"} <= set(found.features)
    assert found.why == "asks for reasoning, code"
    assert estimate("hello").why == "nothing special about it"


def test_a_long_conversation_is_harder() -> None:
    assert estimate("and now?", turns=9).score > estimate("and now?").score


def test_the_reason_never_quotes_the_text() -> None:
    canary = "zebra-4711"
    assert canary not in repr(estimate(f"Explain {canary} in python, step by step: {canary}"))


@given(st.text(max_size=2000), st.integers(min_value=-3, max_value=1000))
def test_any_text_gets_a_score_between_0_and_1_from_named_features(text: str, turns: int) -> None:
    found = estimate(text, turns)
    assert 0 <= found.score <= 1
    assert set(found.features) <= set(FEATURES)


@pytest.mark.parametrize("text", ["a" * 1_000_000, "1+" * 500_000, " \n" * 500_000, "how much will " * 70_000])
def test_a_huge_text_takes_no_longer_than_its_beginning(text: str) -> None:
    def seconds(text: str) -> float:
        started = time.perf_counter()
        estimate(text)
        return time.perf_counter() - started

    short = min(seconds(text[:4000]) for _ in range(5))
    assert min(seconds(text) for _ in range(5)) < 10 * short + 0.005
