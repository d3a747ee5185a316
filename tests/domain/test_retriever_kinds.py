"""Difficult kinds of documents: headings without marks, front matter, tables and lists that are cut, logs, scripts."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.retriever.chunking import Chunk, chunks
from hasten.retriever.sentences import Span, divided, size

BOTH = pytest.mark.parametrize("kind", ["text/markdown", "text/plain"])
LINES = st.sampled_from(
    ["**Bold line**", "3.1 Start", "3 Term", "SCOPE OF WORK", "Q: Who pays?", "A: We do.", "Title\n=====", "- item", ""]
)


def own(text: str, chunk: Chunk) -> str:
    return text[chunk.start : chunk.end]


def said(text: str, found: list[Chunk]) -> list[str]:
    return [text[one.start : one.end] for chunk in found for one in chunk.sentences]


@BOTH
@pytest.mark.parametrize(
    ("text", "headings"),
    [
        ("**Refunds**\n\nIn 30 days.\n\n__Costs__:\n\nFive euro.", ["Refunds", "Costs"]),
        ("3 Term\n\n3.1 Start\n\nIn May.\n\n3.2 End\n\nIn June.", ["3 Term > 3.1 Start", "3 Term > 3.2 End"]),
        ("INTRODUCTION\n\nThis is it.\n\nSCOPE OF WORK\n\nAll of it.", ["INTRODUCTION", "SCOPE OF WORK"]),
        ("Manual\n======\n\nOne.\n\nPart\n----\n\nTwo.", ["Manual", "Manual > Part"]),
        ("Manual\r\n======\r\n\r\nOne.", ["Manual"]),
    ],
    ids=["bold", "numbered", "capitals", "underlined", "underlined, CRLF"],
)
def test_headings_without_marks_are_headings(text: str, headings: list[str], kind: str) -> None:
    assert [chunk.heading for chunk in chunks(text, kind)] == headings


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "**Never do this.** It breaks.",
        "3.2.1 The tenant shall give notice of three months.",
        "5 apples and two pears",
        "E42",
        "**Careful!**\n\nHot.",
        "OK.",
    ],
)
def test_what_only_looks_like_a_heading_is_text(text: str, kind: str) -> None:
    found = chunks(text, kind)
    assert [chunk.heading for chunk in found] == [""]
    assert own(text, found[0]) == text


@given(st.lists(LINES, max_size=14).map("\n\n".join), st.sampled_from(["text/markdown", "text/plain"]))
def test_no_line_is_lost_whatever_it_is_taken_for(text: str, kind: str) -> None:
    found = chunks(text, kind)
    kept = "\n".join([*(own(text, chunk) for chunk in found), *(chunk.heading for chunk in found)])
    for line in text.split("\n"):
        assert line.strip("*=") in kept


def test_front_matter_is_no_heading() -> None:
    text = "---\ntitle: Fees\ntags: [a]\n---\n\n# Prices\n\nIt is five.\n"
    found = chunks(text, "text/markdown")
    assert [chunk.heading for chunk in found] == ["", "Prices"]
    assert "title: Fees" in own(text, found[0])
    assert own(text, found[1]) == "It is five."


def test_rows_go_with_the_head_of_their_table() -> None:
    rows = "".join(f"| plan number {n} of many plans | {n} euro each month |\n" for n in range(60))
    text = f"Our plans:\n\n| plan | price |\n|------|-------|\n{rows}"
    found = chunks(text, "text/markdown")
    assert len(found) > 5
    assert all(text[chunk.lead.start : chunk.lead.end] == "| plan | price |" for chunk in found[1:])
    assert [one for one in said(text, found) if one.startswith("| plan number")] == rows.splitlines()


def test_items_go_with_the_line_that_introduces_them() -> None:
    items = "".join(f"- item {n} has some words in it\n  - and one below it, {n}\n" for n in range(40))
    text = f"Some words first. These are covered:\n\n{items}"
    found = chunks(text, "text/markdown")
    assert len(found) > 5
    assert all("These are covered:" in own(text, one) + text[one.lead.start : one.lead.end] for one in found)
    assert all(own(text, chunk).startswith("- ") for chunk in found[1:]), "a nested item is an item"


def test_a_question_stays_with_its_answer() -> None:
    pairs = "\n\n".join(f"Who decides in case {n} of them all?\n\nThe board of case {n} does." for n in range(40))
    found = chunks(pairs, "text/plain")
    assert len(found) > 5
    assert not any(own(pairs, chunk).endswith("?") for chunk in found)


def test_each_turn_of_a_log_is_a_sentence() -> None:
    text = "Anna: hi, can you help\nDr. Bo-Li: sure, what is it\nAnna: the pump leaks\nat night\nQ: why\nA: rust"
    expected = [
        "Anna: hi, can you help",
        "Dr. Bo-Li: sure, what is it",
        "Anna: the pump leaks\nat night",
        "Q: why",
        "A: rust",
    ]
    assert said(text, chunks(text, "text/plain")) == expected


def test_code_is_one_thing_to_say_wherever_it_is() -> None:
    text = "- one\n\n  ```\n  x = 1. Y = 2\n\n  z\n  ```\n- two\n\n```\nnever. closed\n\n# no heading"
    found = chunks(text, "text/markdown")
    assert [chunk.heading for chunk in found] == [""]
    assert said(text, found)[-1] == "```\nnever. closed\n\n# no heading"


@pytest.mark.parametrize("unit", ["กำ", "e\u0301", "👩‍🚒", "👍🏽", "नि"])
def test_what_is_drawn_as_one_character_is_not_cut(unit: str) -> None:
    text = unit * 2000
    pieces = divided(text, Span(0, len(text)), 20)
    assert len(pieces) > 5
    assert all(size(text[one.start : one.end]) <= 20 for one in pieces)
    for piece in pieces[1:]:
        first = text[piece.start]
        assert not unicodedata.category(first).startswith("M")
        assert first not in "\u200d🏽"
        assert text[piece.start - 1] != "\u200d"


def test_a_megabyte_takes_linear_time() -> None:
    """Eight times the text may take at most 24 times as long (eight and noise)."""
    part = (
        "# Part\n\nThe fee is five. "
        + "Some words follow here, e.g. these. " * 40
        + "\n\n- a\n- b\n\n| a |\n|---|\n| 1 |\n\n"
    )
    text = part * (1_000_000 // len(part))

    def seconds(document: str) -> float:
        started = time.process_time()
        assert chunks(document, "text/markdown")
        return time.process_time() - started

    eighth = min(seconds(text[: len(text) // 8]) for _ in range(2))
    assert seconds(text) <= 24 * eighth + 0.5
