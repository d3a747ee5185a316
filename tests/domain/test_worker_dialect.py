"""Servers of other makers that say the same in other words."""

from typing import Any

import pytest

from hasten.chunks import merge_tool_calls
from hasten.gateway.call_numbers import CallNumbers
from hasten.worker.engines.answer import Answer
from hasten.worker.engines.engine import EngineError
from hasten.worker.engines.sse import BadStream, EventParser, objects


def _choice(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def _call(name: str | None, arguments: str | None, **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return _choice(tool_calls=[{**more, "function": {key: value for key, value in function.items() if value != ""}}])


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("STOP", "stop"),
        ("end_turn", "stop"),
        ("eos", "stop"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("SAFETY", "content_filter"),
        ("content_filter: RECITATION", "content_filter"),
        ("length", "length"),
        ("something_new", "something_new"),
    ],
)
def test_an_end_is_told_in_openais_words(said: str, meant: str) -> None:
    answer = Answer()
    answer.take(_choice(content="a"))
    answer.take(_choice(said))
    assert answer.end().finish_reason == meant


@pytest.mark.parametrize("said", ["stop", "STOP", "function_call", "tool_use", "tool_calls"])
def test_an_answer_that_calls_tools_ends_with_tool_calls(said: str) -> None:
    answer = Answer()
    answer.take(_call("f", "{}", index=0, id="c1"))
    answer.take(_choice(said))
    assert answer.end().finish_reason == "tool_calls"


@pytest.mark.parametrize("said", ["ERROR", "cancelled"])
def test_an_answer_that_broke_off_is_none_in_capitals_either(said: str) -> None:
    answer = Answer()
    answer.take(_choice(content="a"))
    answer.take(_choice(said))
    with pytest.raises(EngineError, match="broke off"):
        answer.end()


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        (
            [_call("f", '{"a":1}', index=0, id=""), _call("g", '{"b":2}', index=0, id="")],
            [("f", '{"a":1}'), ("g", '{"b":2}')],
        ),
        (
            [_call("f", "{}", index=0), _call("f", '{"b"', index=0), _call("", ":2}", index=0)],
            [("f", "{}"), ("f", '{"b":2}')],
        ),
        ([_call("f", '{"a"', index=0), _call("f", ":1}", index=0)], [("f", '{"a":1}')]),
        ([_call("f", None, index=0), _call("", '{"a":1}', index=0)], [("f", '{"a":1}')]),
        (
            [_call("f", '{"a":1}', index=0, id="x"), _call("g", "{}", index=0, id="y")],
            [("f", '{"a":1}'), ("g", "{}")],
        ),
        ([_call("f", '{"a":1}'), _call("g", "{}"), _call("", "")], [("f", '{"a":1}'), ("g", "{}")]),
    ],
)
def test_calls_are_told_apart_in_a_whole_answer_and_in_a_stream(
    deltas: list[dict[str, Any]], calls: list[tuple[str, str]]
) -> None:
    answer, numbers = Answer(), CallNumbers()
    made = [call for one in deltas for delta in answer.take(one) for call in delta.tool_calls or ()]
    merged = merge_tool_calls(made)
    assert [(call["function"]["name"], call["function"]["arguments"]) for call in merged] == calls
    assert len({call["id"] for call in merged}) == len(calls)
    by_number: dict[int, str] = {}
    for call in map(numbers.numbered, made):
        by_number[call["index"]] = by_number.get(call["index"], "") + (call["function"].get("arguments") or "")
    assert list(by_number.values()) == [arguments for _, arguments in calls]


def test_the_first_delta_of_a_call_has_arguments_as_text() -> None:
    (delta,) = Answer().take(_call("f", None, index=0, id="c1"))
    assert delta.tool_calls is not None
    assert delta.tool_calls[0]["function"] == {"name": "f", "arguments": ""}


def test_thoughts_and_refusals_may_come_as_content_parts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    (delta,) = Answer().take(_choice(content=[thinking, {"type": "text", "text": "ok"}]))
    assert (delta.reasoning, delta.text) == ("hm", "ok")
    (delta,) = Answer().take(_choice(content=[{"type": "thinking", "thinking": "hm"}]))
    assert (delta.reasoning, delta.text) == ("hm", "")
    (delta,) = Answer().take(_choice(content=[{"type": "refusal", "refusal": "No."}]))
    assert delta.text == "No."


def test_an_object_that_says_it_is_an_error_is_one() -> None:
    with pytest.raises(EngineError) as caught:
        Answer().take({"object": "error", "message": "no", "type": "BadRequestError", "param": None, "code": 400})
    assert caught.value.code == "bad_request"


def test_what_was_read_from_a_prompt_cache_is_counted_where_another_name_has_it() -> None:
    answer = Answer()
    answer.take(_choice("stop", content="a") | {"usage": {"prompt_tokens": 40, "prompt_cache_hit_tokens": 32}})
    assert answer.end().usage.cached_tokens == 32


def test_an_object_may_stand_in_a_list_and_a_null_says_nothing() -> None:
    assert objects('[{"error": {"code": 429}}]') == [{"error": {"code": 429}}]
    assert objects('{"a": 1}\n{"b": 2}\nnull') == [{"a": 1}, {"b": 2}]
    assert objects("null") == []
    for odd in ("[1]", '"text"', "7", "[[{}]]"):
        with pytest.raises(BadStream):
            objects(odd)


@pytest.mark.parametrize("name", [b"ping", b"heartbeat"])
def test_an_event_that_keeps_a_stream_open_says_nothing(name: bytes) -> None:
    parser = EventParser()
    raw = b"event: " + name + b'\ndata: 2026-11-30\n\ndata: {"a": 1}\n\n'
    assert list(parser.feed(raw)) == [(False, '{"a": 1}')]
