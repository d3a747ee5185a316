"""Splitting: no unit ever cuts a word, a figure or a character, and boundaries are where a reader sees them."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.compressor.sentences import split


def texts(text: str) -> list[str]:
    return [unit.text for unit in split(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("It holds 2.5 TB, e.g. for photos. Fine.", ["It holds 2.5 TB, e.g. for photos.", "Fine."]),
        ("Ask Dr. Smith or J. R. Tolkien. They know.", ["Ask Dr. Smith or J. R. Tolkien.", "They know."]),
        ("See No. 5 and Fig. 3. No. They are gone.", ["See No. 5 and Fig. 3.", "No.", "They are gone."]),
        ("Open until 5 p.m. Closed on Sundays.", ["Open until 5 p.m.", "Closed on Sundays."]),
        ("The U.S. Army came. It left.", ["The U.S. Army came.", "It left."]),
        ("Er kam am 3. Mai an. Dann ging er.", ["Er kam am 3. Mai an.", "Dann ging er."]),
        ("It was 2019. The rest is history.", ["It was 2019.", "The rest is history."]),
        ('"Why?" he asked. "No!" Then silence.', ['"Why?" he asked.', '"No!"', "Then silence."]),
        ("Wait... what? Well… Yes.", ["Wait... what?", "Well…", "Yes."]),
        ("Go to http://x.y/z.html. Read it.", ["Go to http://x.y/z.html.", "Read it."]),
        ("(See above.) Next.", ["(See above.)", "Next."]),
        ("क्या यह है। हाँ।", ["क्या यह है।", "हाँ।"]),
    ],
)
def test_sentences_end_where_a_reader_sees_it(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


def test_japanese_and_chinese_sentences_end_at_their_own_marks() -> None:
    assert texts("解約は月末の三日前まで。書面で申し込む！「はい。」本当？はい") == [
        "解約は月末の三日前まで。",
        "書面で申し込む！",
        "「はい。」",
        "本当？",
        "はい",
    ]


def test_amounts_dates_and_comparison_signs_stay_whole() -> None:
    text = "Turnover 2019: EUR 1,250,000. Rate: 12.5% until 31.12.2020, then 9%. Exempt if < 50,000."
    assert texts(text) == [
        "Turnover 2019: EUR 1,250,000.",
        "Rate: 12.5% until 31.12.2020, then 9%.",
        "Exempt if < 50,000.",
    ]


def test_lines_wrapped_by_hand_are_one_sentence_and_short_lines_are_not() -> None:
    wrapped = (
        "The family plan of this service holds two terabytes and\nmay be used by up to six people. Each has a login."
    )
    assert len(texts(wrapped)) == 2
    assert texts("Berlin: 10 to 18\nHamburg: 9 to 17") == ["Berlin: 10 to 18", "Hamburg: 9 to 17"]


def test_code_and_json_are_one_unit_whatever_is_inside() -> None:
    code = '```py\nx = 1. \ny = "A. B. C"\n\nz\n```'
    value = json.dumps({"a": "One. Two.", "b": [1, {"c": "# no heading"}]}, indent=2)
    units = split(f"Before. It runs:\n{code}\nThen\n{value}\nAfter.")
    assert [unit.text for unit in units if unit.kind in ("code", "json")] == [code, value]


def test_json_over_blank_lines_and_broken_json() -> None:
    assert [unit.kind for unit in split('{"a": 1,\n\n "b": [1, 2]}\n[1] is a citation')] == ["json", "sentence"]
    assert "json" not in {unit.kind for unit in split('{"a": 1,\n"b": [1.\n}\n[1, 2] and more')}


def test_a_table_row_hangs_on_its_header_and_an_item_on_its_introduction() -> None:
    text = (
        "## Prices\nAll plans:\n- Free: 0 euros.\n- Pro: 12 euros. Billed monthly.\n\n"
        "| Plan | Price |\n|---|---|\n| Free | 0 |\n| Pro | 12. Yes. |\n\nTail."
    )
    units = split(text)
    by_text = {unit.text: unit for unit in units}
    lead = {unit.text: units[unit.lead].text if unit.lead >= 0 else None for unit in units}
    assert lead["| Pro | 12. Yes. |"] == "| Plan | Price |\n|---|---|"
    assert lead["- Pro: 12 euros."] == lead["- Free: 0 euros."] == "All plans:"
    assert lead["Billed monthly."] == "- Pro: 12 euros."
    assert lead["All plans:"] == lead["Tail."] == lead["| Plan | Price |\n|---|---|"] == "## Prices"
    assert lead["## Prices"] is None
    assert by_text["| Free | 0 |"].kind == "row"


@pytest.mark.parametrize("text", ["", "   ", "\n\n", "{}", "[]", '{"a":""}'])
def test_what_has_nothing_to_split(text: str) -> None:
    assert texts(text) == ([text] if text.strip() else [])


TEXT = st.text(alphabet=st.sampled_from(list("ab A1.,!?:;|-#`{}[]\"'\n\t 。！é世界ก🎉‍—*")), max_size=300) | st.text(
    max_size=200
)


@given(TEXT)
def test_units_are_spans_in_order_and_lose_nothing_but_white_space(text: str) -> None:
    units = split(text)
    at = 0
    for unit in units:
        assert unit.text == text[unit.start : unit.end] == unit.text.strip() != ""
        assert text[at : unit.start].strip() == ""
        at = unit.end
    assert text[at:].strip() == ""
    assert all(unit.lead < index for index, unit in enumerate(units))


@given(TEXT)
def test_no_boundary_falls_inside_a_word_or_a_figure(text: str) -> None:
    for unit in split(text):
        around = text[max(0, unit.end - 1) : unit.end + 1]
        assert not re.fullmatch(r"\w\w", around), around
        assert not re.fullmatch(r"[.,]\d", around), around


@pytest.mark.parametrize(
    "text",
    [
        "| " + "-:" * 200_000 + "x\n|" + "- " * 200_000 + "x",
        '{"a":1,\n' * 50_000,
        "[\n" * 100_000,
        "A. " * 200_000,
        "```\n" * 100_000,
        "." * 500_000 + "'" * 500_000,
        " " * 500_000 + "x",
    ],
    ids=["rule", "objects", "lists", "initials", "fences", "stops", "space"],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    """Each of these would take from minutes to days if a step were quadratic: the suite's time limit would end it."""
    assert 0 < sum(map(len, texts(text))) <= len(text)
