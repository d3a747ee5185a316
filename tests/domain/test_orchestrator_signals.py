"""What a draft says against itself, as a table of answers; whatever is no signal is left alone."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.messages.chat import Chunk
from hasten.messages.generate import Confidence
from hasten.orchestrator.schema import fits
from hasten.orchestrator.signals import Bounds, Draft, doubt, draft_of, in_time, refuses

BOUNDS = Bounds(mean_logprob=-1.0, min_logprob=-6.0)
OBJECT = {"type": "json_object"}
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}


def sure(mean: float, least: float = -3.0) -> Confidence:
    return Confidence(tokens=20, mean_logprob=mean, min_logprob=least)


@pytest.mark.parametrize(
    ("draft", "expected"),
    [
        (Draft(text="Paris.", finish_reason="stop"), None),
        (Draft(text="", finish_reason="stop"), "empty"),
        (Draft(text=" \n", finish_reason="stop"), "empty"),
        (Draft(text="", finish_reason=""), None),
        (Draft(text="", finish_reason="tool_calls", calls_tools=True), None),
        (Draft(text="The three causes are", finish_reason="length"), "truncated"),
        (Draft(text="The three causes are", finish_reason="length", limited=True), None),
        (Draft(text="The three causes are"), None),
        (Draft(text='{"city": "Rome"}', finish_reason="stop", response_format=OBJECT), None),
        (Draft(text='{"city": "Rome"', finish_reason="stop", response_format=OBJECT), "format"),
        (Draft(text='["Rome"]', finish_reason="stop", response_format=OBJECT), "format"),
        (Draft(text='{"city": "Ro', response_format=OBJECT), None),
        (Draft(text="Sure! Here it is", response_format=OBJECT), "format"),
        (Draft(text='{"city": "Ro', finish_reason="length", limited=True, response_format=OBJECT), None),
        (Draft(text='{"city": "Rome", "people": 3}', finish_reason="stop", response_format=SCHEMA), None),
        (Draft(text='{"people": 3}', finish_reason="stop", response_format=SCHEMA), "format"),
        (Draft(text='{"city": "Rome", "mayor": 1}', finish_reason="stop", response_format=SCHEMA), "format"),
        (Draft(text="Rome", finish_reason="stop", response_format={"type": "text"}), None),
        (Draft(text="I don't know.", finish_reason="stop"), "refusal"),
        (Draft(text="I don\u2019t know"), "refusal"),
        (Draft(text="Paris.", finish_reason="stop", confidence=sure(-0.4)), None),
        (Draft(text="Paris.", finish_reason="stop", confidence=sure(-1.2)), "unsure"),
        (Draft(text="Paris is", confidence=sure(-1.2)), "unsure"),
        (Draft(text="Paris.", finish_reason="stop", confidence=sure(-0.4, -7.5)), "unsure"),
    ],
)
def test_what_a_draft_says_against_itself(draft: Draft, expected: str | None) -> None:
    assert doubt(draft, BOUNDS) == expected


def test_without_bounds_no_answer_is_unsure() -> None:
    assert doubt(Draft(text="Paris.", finish_reason="stop", confidence=sure(-9.0, -30.0)), Bounds()) is None


@pytest.mark.parametrize(
    "text",
    [
        "I don't know the answer to that.",
        "I do not have access to real-time information.",
        "I'm not sure, but it may be Rome.",
        "I am unable to help with that.",
        "I'm sorry, but I can't assist with that request.",
        "Sorry, I cannot answer this question.",
        "Unfortunately, I do not have enough information.",
        "As an AI language model, I cannot provide opinions.",
        "The passage does not mention who wrote it.",
        "It is not mentioned in the text.",
        "There is no information about that in the context.",
        "Hello! I cannot determine that from the given text.",
        "Unknown",
        "N/A",
        "No answer.",
    ],
)
def test_a_refusal_is_known(text: str) -> None:
    assert refuses(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Paris.",
        "I can't believe how good this is: it sold a million copies.",
        "I cannot wait to see you on Friday!",
        "The unknown soldier was buried in 1920.",
        "None of the planets but Earth has oceans.",
        "Socrates said that he did not know, and that this was wisdom.",
        "It is known as the City of Light.",
        "The law does not apply to trees.",
        "Sure, I can help with that.",
        "Yes. " + "The tide rises twice a day. " * 8 + "I don't know why.",
    ],
)
def test_an_answer_is_no_refusal(text: str) -> None:
    assert not refuses(text)


def test_a_draft_is_made_of_its_chunks() -> None:
    chunks = [Chunk(seq=0, reasoning="Hm."), Chunk(seq=1, text="The "), Chunk(seq=2, text="tide.")]
    assert draft_of(chunks, finish_reason="stop") == Draft(text="The tide.", finish_reason="stop")
    assert draft_of([Chunk(seq=0, tool_calls=[{"index": 0}])]).calls_tools


def test_a_better_model_is_asked_only_with_the_time_for_it() -> None:
    assert [in_time(left_ms, 1000) for left_ms in (500, 1999, 2000, 60_000)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        (1, {"type": "integer"}, True),
        (1.0, {"type": "integer"}, True),
        (1.5, {"type": "integer"}, False),
        (True, {"type": "integer"}, False),
        (True, {"type": "number"}, False),
        (None, {"type": ["string", "null"]}, True),
        ("b", {"enum": ["a", "b"]}, True),
        ("c", {"enum": ["a", "b"]}, False),
        ("c", {"const": "c"}, True),
        ([1, "2"], {"type": "array", "items": {"type": "integer"}}, False),
        ([1, 2], {"items": {"type": "integer"}}, True),
        ({"a": {"b": "x"}}, {"properties": {"a": {"properties": {"b": {"type": "integer"}}}}}, False),
        (3, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, True),
        (3, {"oneOf": [{"type": "string"}, {"type": "null"}]}, False),
        (3, {"allOf": [{"type": "integer"}, {"const": 4}]}, False),
        ({"next": {"next": None}}, {"$ref": "#/$defs/n", "$defs": {"n": {"required": ["next"]}}}, True),
        ({}, {"$ref": "#/$defs/n", "$defs": {"n": {"required": ["next"]}}}, False),
        (3, {"$ref": "https://example.com/x"}, True),
        (3, {"type": "unheard-of", "format": "money"}, True),
        (3, {"$ref": "#"}, True),
        ({"a": 1}, {"properties": 3, "required": 4}, True),
        (3, True, True),
        (3, False, False),
    ],
)
def test_a_value_is_called_wrong_only_when_it_is(value: Any, schema: Any, expected: bool) -> None:
    assert fits(value, schema) is expected


_SCALAR = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
_JSON = st.recursive(
    _SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


_WORDS = ("type", "enum", "const", "properties", "required", "additionalProperties", "items", "anyOf", "allOf", "$ref")
_SCHEMA = st.recursive(
    st.sampled_from(["#", "object", "integer", True, False, None, 3]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=3),
)


@settings(max_examples=60)
@given(_JSON, _SCHEMA)
def test_any_schema_can_be_asked(value: Any, schema: Any) -> None:
    assert fits(value, schema) in (True, False)


@settings(max_examples=60)
@given(st.text(max_size=300), st.sampled_from([None, OBJECT, SCHEMA]), st.sampled_from(["", "stop", "length"]))
def test_any_text_can_be_judged(text: str, form: dict[str, Any] | None, reason: str) -> None:
    found = doubt(Draft(text=text, finish_reason=reason, response_format=form), BOUNDS)
    if found is None and reason == "stop" and form is OBJECT:
        assert isinstance(json.loads(text), dict)
