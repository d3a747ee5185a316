"""Each rule holds for what it is named after, in several languages, and for nothing that only looks like it."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.router.rules import FIRM, HINTS, LONG_TOKENS, asked, first
from loadtest.foreign_texts import FOREIGN

CASES = [
    ("extraction", "Extract the invoice number from this text: invoice 48213 of 3 May"),
    ("extraction", "Please extract all dates.\n\nWe met on 3 May."),
    ("extraction", "Could you please extract the names?"),
    ("extraction", "Extrahiere die Rechnungsnummer aus diesem Text: Rechnung 48213"),
    ("extraction", "Bitte extrahiere alle Namen"),
    ("extraction", "Extrais les dates du texte suivant"),
    ("extraction", "Por favor, extrae los nombres"),
    ("extraction", "Извлеки все даты из текста"),
    ("extraction", "请提取以下文本中的日期"),
    ("extraction", "次の文から日付を抽出してください"),
    ("classification", "Classify the sentiment: I love it"),
    ("classification", "Label this ticket as billing, delivery or other: where is my parcel?"),
    ("classification", "Is the sentence 'water boils' a claim? Answer yes or no"),
    ("classification", "Klassifiziere diese Nachricht"),
    ("classification", "Clasifica este mensaje"),
    ("classification", "请对以下评论进行分类"),
    ("classification", "Классифицируй отзыв"),
]
HARD = [
    ("reasoning", "Explain why the two pricing models differ and compare their trade-offs for a small team."),
    ("reasoning", "Prove that the square root of 2 is irrational, then derive the same for 3."),
    ("reasoning", "Classify these plans and explain your choice"),
    ("reasoning", "Extract the claims and evaluate each of them"),
    ("code", "Write a Python function that merges overlapping intervals."),
    ("code", "What does this do?\n```\nx = f(y)\n```"),
]
NONE = [
    "What is the price of the Basic plan?",
    "Who wrote Peer Gynt?",
    "The extract of vanilla is sold out?",
    "My label printer is broken",
    "hello",
    "What is 12 * 17?",
    "",
    "48213",
    "Los Angeles or San Diego?",
    "La Traviata",
    "Is Le Monde a newspaper?",
    "What does 'Wie geht es Ihnen' mean and when is it used?",
    "Where is α in the formula α + β?",
]


@pytest.mark.parametrize(("name", "text"), CASES)
def test_a_firm_rule_makes_it_easy(name: str, text: str) -> None:
    rule = first(FIRM, asked(text))
    assert rule is not None
    assert (rule.name, rule.bound(0.9), rule.bound(0.1)) == (name, 0.2, 0.1)


@pytest.mark.parametrize(("name", "text"), HARD)
def test_a_hint_makes_it_hard_and_outranks_the_easy_rules(name: str, text: str) -> None:
    assert first(FIRM, asked(text)) is None
    rule = first(HINTS, asked(text))
    assert rule is not None
    assert rule.name == name
    assert rule.bound(0.1) >= 0.4
    assert rule.bound(0.9) == 0.9


@pytest.mark.parametrize("text", NONE)
def test_what_only_looks_like_it_is_left_alone(text: str) -> None:
    assert first(FIRM, asked(text)) is None
    assert first(HINTS, asked(text)) is None


@pytest.mark.parametrize("language", FOREIGN)
def test_another_language_is_known_and_prefers_a_model_for_it(language: str) -> None:
    rule = first(FIRM, asked(FOREIGN[language]))
    assert rule is not None
    assert (rule.name, rule.prefers) == ("language", ("multilingual",))


def test_tools_and_long_contexts_ask_for_a_better_model_whatever_the_words() -> None:
    for fields, name in (({"needs": ["json", "tools"]}, "tools"), ({"prompt_tokens": LONG_TOKENS}, "long_context")):
        rule = first(FIRM, asked("Extract the date", **fields))
        assert rule is not None
        assert (rule.name, rule.least) == (name, 0.5)
    assert first(HINTS, asked("and now?", turns=12)) == next(rule for rule in HINTS if rule.name == "conversation")


def test_names_are_unique_and_bounds_make_sense() -> None:
    rules = FIRM + HINTS
    assert len({rule.name for rule in rules}) == len(rules)
    assert all(0 <= rule.least <= rule.most <= 1 for rule in rules)


@given(st.text(max_size=500))
@settings(deadline=None)
def test_any_text_is_answered(text: str) -> None:
    assert first(FIRM + HINTS, asked(text)) in (None, *FIRM, *HINTS)


@pytest.mark.parametrize("text", ["a" * 1_000_000, "1+" * 500_000, " \n" * 500_000, "how much will " * 70_000])
def test_a_huge_text_takes_no_longer_than_its_beginning(text: str) -> None:
    def seconds(text: str) -> float:
        started = time.thread_time()
        first(FIRM + HINTS, asked(text))
        return time.thread_time() - started

    short = min(seconds(text[:4000]) for _ in range(5))
    assert min(seconds(text) for _ in range(5)) < 10 * short + 0.005
