"""What a streamed answer means."""

from typing import Any

import pytest

from hasten.chunks import merge_tool_calls
from hasten.codec import decode, encode
from hasten.messages.chat import Usage
from hasten.worker.engines.answer import Answer
from hasten.worker.engines.engine import EngineError


def _choice(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def test_deltas_usage_and_finish_come_out() -> None:
    answer = Answer()
    assert answer.take(_choice(role="assistant", content=None)) == []
    assert [delta.reasoning for delta in answer.take(_choice(reasoning_content="hm"))] == ["hm"]
    assert [delta.text for delta in answer.take(_choice(content="Hi", role=""))] == ["Hi"]
    assert answer.take(_choice("stop")) == []
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}}
    assert answer.take({"choices": [], "usage": usage}) == []
    end = answer.end()
    assert (end.finish_reason, end.usage.prompt_tokens, end.usage.cached_tokens) == ("stop", 9, 8)


def test_details_of_the_usage_are_kept_and_what_is_no_count_is_none() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 3}}
    details["completion_tokens_details"] = {"reasoning_tokens": 60}
    answer = Answer(may_be_empty=True)
    answer.take(_choice("stop") | {"usage": {"prompt_tokens": 40.0, "completion_tokens": 90, **details}})
    usage = Usage(
        prompt_tokens=40,
        completion_tokens=90,
        cached_tokens=8,
        completion_tokens_details={"reasoning_tokens": 60},
        prompt_tokens_details={"audio_tokens": 3},
    )
    assert answer.end().usage == decode(Usage, encode(usage)) == usage
    for odd in ("7", -1, None, float("nan"), 2**80, [7]):
        answer.take({"usage": {"prompt_tokens": odd, "prompt_tokens_details": odd, "completion_tokens_details": odd}})
        assert decode(Usage, encode(answer.end().usage)) == Usage()


def test_tool_calls_are_an_answer() -> None:
    answer = Answer()
    (delta,) = answer.take(_choice(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}]))
    assert delta.tool_calls == [{"index": 0, "function": {"arguments": "{}"}}]
    answer.take(_choice("tool_calls"))
    assert answer.end().finish_reason == "tool_calls"


def test_calls_with_neither_index_nor_id_are_told_apart_by_their_names() -> None:
    answer, said = Answer(), []
    for name, arguments in (("f", '{"a":'), (None, "2}"), ("f", '{"a":3}')):
        (delta,) = answer.take(_choice(tool_calls=[{"function": {"name": name, "arguments": arguments}}]))
        said += delta.tool_calls or []
    assert [call["function"]["arguments"] for call in merge_tool_calls(said)] == ['{"a":2}', '{"a":3}']


def test_arguments_that_come_as_an_object_are_text_for_the_reader() -> None:
    (delta,) = Answer().take(_choice(tool_calls=[{"id": "c1", "function": {"name": "f", "arguments": {"a": 2}}}]))
    assert delta.tool_calls == [{"id": "c1", "function": {"name": "f", "arguments": '{"a":2}'}}]


@pytest.mark.parametrize(
    ("delta", "said"),
    [
        ({"content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "!"}]}, "Hi!"),
        ({"content": None, "refusal": "I cannot."}, "I cannot."),
    ],
)
def test_text_that_comes_in_another_place_is_read(delta: dict[str, Any], said: str) -> None:
    answer = Answer()
    assert [one.text for one in answer.take(_choice("stop", **delta))] == [said]
    assert answer.end().finish_reason == "stop"


@pytest.mark.parametrize(
    "plain",
    [
        {"choices": "Hi"},
        {"choices": ["Hi"]},
        {"choices": {"0": {}}},
        {"choices": [{"index": 0, "delta": "Hi"}]},
        _choice(content=7),
        _choice(content=[{"type": "audio", "data": "…"}]),
        _choice(tool_calls={"index": 0}),
        _choice(tool_calls=["f"]),
        _choice(tool_calls=[{"index": 0, "function": "f"}]),
        _choice(tool_calls=[{"index": [0], "function": {"name": "f"}}]),
        _choice(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": 2}}]),
        _choice(tool_calls=[{"index": 0, "id": 7, "function": {"name": "f"}}]),
        _choice(function_call={"name": "f", "arguments": "{}"}),
    ],
)
def test_an_object_of_another_form_is_a_failure_and_neither_silence_nor_a_crash(plain: dict[str, Any]) -> None:
    """Anything but an EngineError would take the worker down with all that it generates."""
    with pytest.raises(EngineError) as caught:
        Answer().take(plain)
    assert caught.value.code in ("upstream", "unsupported")
    assert "Hi" not in caught.value.detail


def test_a_finish_reason_that_is_no_text_is_none() -> None:
    answer = Answer()
    answer.take({"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": 7}]})
    with pytest.raises(EngineError, match="incomplete"):
        answer.end()


def test_a_whole_message_counts_as_one_delta() -> None:
    answer = Answer()
    (delta,) = answer.take({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})
    assert delta.text == "Hi"
    assert answer.end().finish_reason == "stop"


def test_other_choices_are_not_mixed_in() -> None:
    answer = Answer()
    assert answer.take({"choices": [{"index": 1, "delta": {"content": "B"}, "finish_reason": "stop"}]}) == []
    with pytest.raises(EngineError):
        answer.end()


@pytest.mark.parametrize("said", [[], [_choice(content="Half an ans")]])
def test_an_end_without_a_finish_reason_is_incomplete(said: list[dict[str, Any]]) -> None:
    answer = Answer()
    for plain in said:
        answer.take(plain)
    with pytest.raises(EngineError) as caught:
        answer.end()
    assert caught.value.code == "incomplete"


def test_a_stop_without_a_word_is_incomplete_but_a_length_is_not() -> None:
    answer = Answer()
    answer.take(_choice("stop", content=""))
    with pytest.raises(EngineError) as caught:
        answer.end()
    assert caught.value.code == "incomplete"
    answer = Answer()
    answer.take(_choice("length", reasoning_content="still thinking"))
    assert answer.end().finish_reason == "length"
    answer = Answer(may_be_empty=True)
    answer.take(_choice("stop"))
    assert answer.end().finish_reason == "stop"


def test_a_call_without_an_id_gets_one_for_its_result_to_name() -> None:
    answer = Answer()
    fragments = [("f", "{"), (None, "}"), ("g", "{}")]
    deltas = []
    for at, (name, arguments) in enumerate(fragments):
        function = {"arguments": arguments} | ({"name": name} if name else {})
        deltas += answer.take({"choices": [{"delta": {"tool_calls": [{"index": at // 2, "function": function}]}}]})
    calls = merge_tool_calls(one for delta in deltas for one in delta.tool_calls or [])
    assert [(one["function"]["name"], one["function"]["arguments"]) for one in calls] == [("f", "{}"), ("g", "{}")]
    assert all(one["id"].startswith("call_") for one in calls)
    assert calls[0]["id"] != calls[1]["id"]


@pytest.mark.parametrize("told", [None, {}, {"content": None}, {"content": [{"token": "a"}, 3]}])
def test_text_whose_log_probabilities_were_asked_for_and_not_told_is_no_answer(told: Any) -> None:
    answer = Answer(alternatives=0)
    assert answer.take({"choices": [{"delta": {"content": ""}, "logprobs": told}]}) == []
    with pytest.raises(EngineError) as caught:
        answer.take({"choices": [{"delta": {"content": "Hi"}, "logprobs": told}]})
    assert (caught.value.code, caught.value.param) == ("unsupported", "logprobs")


def test_log_probabilities_are_told_as_json_and_with_no_more_alternatives_than_asked_for() -> None:
    other = {"token": "b", "logprob": float("-inf"), "bytes": [300], "id": 7}
    token = {"token": "\ud83d", "logprob": -0.5, "bytes": [240, 159], "top_logprobs": [other, other], "id": 9}
    (delta,) = Answer(alternatives=1).take({"choices": [{"delta": {"content": "a"}, "logprobs": {"content": [token]}}]})
    told = decode(dict[str, Any], encode({"told": delta.tokens}))["told"]
    assert told == [
        {
            "token": "\ufffd",
            "logprob": -0.5,
            "bytes": [240, 159],
            "top_logprobs": [{"token": "b", "logprob": -9999.0, "bytes": [98]}],
        }
    ]
