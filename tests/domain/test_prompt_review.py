"""What a review of a prompt finds and leaves alone, measured on a set of prompts; its suggestions lose nothing."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_rig import smollm2

from hasten.compressor.byte_estimate import ByteEstimate
from hasten.compressor.hf_tokenizer import HfTokenizer
from hasten.messages.chat import parse_chat
from hasten.prompts.finding import Finding
from hasten.prompts.kept import lost
from hasten.prompts.review import Prompt, Review, differing, review, system_of
from hasten.prompts.suggestion import applied

__all__ = ["smollm2"]
COUNTER = ByteEstimate()
CASES = [json.loads(line) for line in (Path(__file__).parent / "prompt_reviews.jsonl").read_text().splitlines()]
"""Prompts as they are written for work, a good half of them without a fault: `found` are the kinds and the places."""
TWICE = ("repeated", "example")


def reviewed(text: str) -> Review:
    return review(Prompt(source="p", text=text), COUNTER)


def of(text: str, kind: str) -> list[Finding]:
    return [one for one in reviewed(text).findings if one.kind == kind]


def request(**body: Any) -> Review:
    sent = parse_chat({"messages": [{"role": "user", "content": "Go."}], **body})
    return review(Prompt(source="p", text=system_of(sent), request=sent), COUNTER)


def system(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": text}, {"role": "user", "content": "Go."}]


def test_it_finds_what_is_there_and_cries_no_wolf() -> None:
    right, wrong, missed = 0, [], []
    for case in CASES:
        wanted = [tuple(one) for one in case["found"]]
        for one in reviewed(case["text"]).findings:
            near = case["text"][one.start : one.end + 60]
            hit = next(
                (want for want in wanted if want[0] == one.kind and (want[1] in near or one.text in want[1])), None
            )
            if hit is None:
                wrong.append((one.kind, one.text))
            else:
                wanted.remove(hit)
                right += 1
        missed += wanted
    assert right / (right + len(wrong)) >= 0.97, wrong
    assert right / (right + len(missed)) >= 0.95, missed


def test_a_prompt_without_a_fault_is_clean_and_stays_as_it_is() -> None:
    clean = [case["text"] for case in CASES if not case["found"]]
    assert len(clean) >= 35
    for text in clean:
        made = reviewed(text)
        assert (made.findings, made.suggested) == ([], text)


@pytest.mark.parametrize("text", [case["text"] for case in CASES if case["found"]])
def test_a_suggestion_loses_nothing_and_leaves_nothing_to_suggest(text: str) -> None:
    made = reviewed(text)
    without_twins = applied(text, [one.edit for one in made.findings if one.edit and one.kind in TWICE])
    assert not lost(without_twins, made.suggested)
    assert [one.kind for one in reviewed(made.suggested).findings if one.edit is not None] == []


def test_a_suggestion_has_fewer_tokens_of_the_model(smollm2: HfTokenizer) -> None:
    for case in CASES:
        made = review(Prompt(source="p", text=case["text"]), smollm2)
        moved = sum(one.edit is not None and bool(one.edit.moved) for one in made.findings)
        saved = sum(one.tokens for one in made.findings if one.edit is not None)
        assert smollm2.counts([made.suggested])[0] <= made.tokens - saved // 2 + 2 * moved


SENTENCES = [sentence for case in CASES for sentence in case["text"].replace("\n", "\n ").split(". ")]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=14), st.sampled_from([". ", "\n- ", ".\n\n", "\n"]))
def test_figures_negations_and_names_survive_whatever_the_prompt(sentences: list[str], between: str) -> None:
    text = between.join(sentences)
    made = reviewed(text)
    without_twins = applied(text, [one.edit for one in made.findings if one.edit and one.kind in TWICE])
    assert not lost(without_twins, made.suggested)
    for one in made.findings:
        assert 0 <= one.start < one.end <= len(text)
        assert one.line == text.count("\n", 0, one.start) + 1
        if one.kind in TWICE and one.edit is not None:
            words = Counter(text.lower().split())
            assert words[text[one.start : one.end].lower().split()[-1]] >= 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(max_size=200))
def test_any_text_can_be_reviewed(text: str) -> None:
    made = reviewed(text)
    assert made.suggested == text or made.findings


BEHIND = (
    " Explain every step of the plan and the tools it takes. Name the sources that you have used. List what is open."
    " Mark guesses with a star. Close with the next date on which somebody has to decide, and who that is."
)


def test_what_changes_costs_what_is_behind_it_and_nothing_at_the_end() -> None:
    first = of("Today is 2026-11-30." + BEHIND, "volatile")
    assert [one.after for one in first] == [COUNTER.counts([BEHIND.strip()])[0]]
    assert of(BEHIND + " Today is 2026-11-30.", "volatile") == []
    moved = reviewed("Today is 2026-11-30." + BEHIND).suggested
    assert moved == BEHIND.strip() + "\n\nToday is 2026-11-30."
    assert reviewed(moved).findings == []


@pytest.mark.parametrize(
    "text",
    [
        "Prices are valid from 2026-01-01.",
        "Dates look like 2026-11-30T10:00:00Z.",
        'Say "today is 2026-11-30" when asked.',
        "If today is Monday, offer soup.",
        "The knowledge cut-off is 30 June 2024.",
        "Order ids are `9f8e7d6c5b4a9f8e7d6c5b4a`.",
        "GET /orders/{order_id} returns one.",
        "The template is {date}: {title}.",
        "{{company_name}} sells {{product}}.",
        "The customer is King here.",
    ],
)
def test_facts_formats_and_names_of_the_operator_are_not_volatile(text: str) -> None:
    found = reviewed(text + BEHIND).findings
    assert [one for one in found if one.kind in ("volatile", "placeholder") and one.start < len(text)] == []


def test_the_same_words_in_two_cases_are_not_said_twice() -> None:
    cases = "## Loans\nAsk for the card number.\n\n## Fines\nAsk for the card number."
    assert of(cases, "repeated") == []
    general = "## Rules\nAsk for the card number.\n\n## Reminder\nAsk for the card number."
    assert [one.line for one in of(general, "repeated")] == [5]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Wait 5 days before you answer a mail.", "Wait 6 days before you answer a mail."),
        ("Send the invoice before the parcel.", "Send the parcel before the invoice."),
        ("Name the price of plan Solo first.", "Name the price of plan Duo first."),
        ("Ask for the number if the customer calls.", "Ask for the number of the customer."),
        ("Do not mention the price of spare parts.", "Mention the weight of spare parts."),
    ],
)
def test_sentences_that_differ_in_what_counts_are_not_the_same(one: str, two: str) -> None:
    assert of(f"{one} {two}", "repeated") == []


def test_of_a_request_its_tools_examples_and_placeholders_are_seen() -> None:
    long = "Finds articles of the help centre by their words and returns the three best ones."
    tools = [
        {"type": "function", "function": {"name": name, "description": long, "parameters": {"type": "object"}}}
        for name in ("search", "find")
    ]
    examples = [
        {"user": "How much is it?", "assistant": "9 euros."},
        {"user": "how much is it", "assistant": "9 euros."},
    ]
    made = request(messages=system("Be exact, {{user_name}}."), tools=tools, examples=examples)
    assert sorted(one.kind for one in made.findings) == ["dead", "example", "tools"]
    assert all(one.why for one in made.findings)
    without = request(messages=system("Use the tools for sums. Round to cents."))
    assert [one.kind for one in without.findings] == ["dead"]
    assert request(messages=system("Use the tools for sums. Round to cents."), tools=tools[:1]).findings == []


def test_what_differs_between_requests_of_one_template_is_seen_without_guessing() -> None:
    bodies = [f"Desk {name} is open.{BEHIND}" for name in ("north", "north", "south")]
    requests = [parse_chat({"messages": system(text)}) for text in bodies]
    prompts = [Prompt(source="b", text=text, request=one) for text, one in zip(bodies, requests, strict=True)]
    found = differing(prompts, COUNTER)
    assert list(found) == [2]
    assert found[2].text.startswith("so")
    assert found[2].after > 40
    others = [Prompt(source="b", text=text, request=requests[0]) for text in ("Write haiku.", "Sort mail by chamber.")]
    assert differing(others, COUNTER) == {}
