"""What vLLM is asked for, and what becomes of its output; vLLM itself is asked by `make test-vllm`."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hasten.chunks import merge_tool_calls
from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.worker.engines.answer import Answer
from hasten.worker.engines.engine import Delta, EngineError, tenant_of
from hasten.worker.engines.vllm_output import Output, TextReader
from hasten.worker.engines.vllm_request import chat, sampling
from hasten.worker.engines.vllm_tools import reader

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]
NAMED = {"type": "function", "function": {"name": "weather"}}


def _request(**options: Any) -> Generate:
    return Generate(messages=[Turn(role="user", content="hi")], **options)


def test_a_request_asks_for_no_more_than_the_window_has_left() -> None:
    assert sampling(_request(max_tokens=10**18), 100)["max_tokens"] == 100
    assert sampling(_request(max_tokens=5, stop=["x"]), 100) == {"max_tokens": 5, "stop": ["x"], "n": 1}


def test_what_steers_the_engine_is_left_out_and_our_own_fields_win() -> None:
    extra = {"top_k": 3, "temperature": 2.0, "n": 9, "max_tokens": 1, "output_kind": 2, "logit_bias": {"7": 1.5}}
    made = sampling(_request(temperature=0.5, extra=extra), 1000)
    assert made == {
        "top_k": 3,
        "logit_bias": {7: 1.5},
        "temperature": 0.5,
        "stop": [],
        "max_tokens": 512,
        "n": 1,
    }


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, {"json_object": True}),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": CITY}}}, {"json": CITY}),
        ({"tools": TOOLS}, None),
        ({"tools": TOOLS, "tool_choice": "auto"}, None),
        ({"tools": TOOLS, "tool_choice": NAMED, "response_format": {"type": "json_object"}}, {"json": CITY}),
    ],
)
def test_the_form_of_an_answer(options: dict[str, Any], form: dict[str, Any] | None) -> None:
    assert sampling(_request(**options), 10).get("structured_outputs") == form


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"tools": TOOLS, "tool_choice": {"function": {"name": "nobody"}}}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "sometimes"}, "tool_choice"),
    ],
)
def test_a_form_that_is_none_is_the_callers_fault(options: dict[str, Any], param: str) -> None:
    with pytest.raises(EngineError) as caught:
        sampling(_request(**options), 10)
    assert (caught.value.code, caught.value.param) == ("bad_request", param)


def test_a_template_gets_plain_turns_and_tools_that_may_be_used() -> None:
    turns = [Turn(role="developer", content="Be short."), Turn(role="user", content=[{"type": "text", "text": "hi"}])]
    extra = {"chat_template_kwargs": {"enable_thinking": False, "conversation": []}}
    made = chat(Generate(messages=turns, tools=TOOLS, extra=extra))
    assert made == {
        "enable_thinking": False,
        "conversation": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "hi"}],
        "tools": TOOLS,
    }
    assert chat(_request(tools=TOOLS, tool_choice="none"))["tools"] is None


def _piece(text: str, tokens: int, finish_reason: str | None = None, cached: int = 0, *, probable: bool = False) -> Any:
    found = [{at: SimpleNamespace(logprob=-0.5 - at)} for at in range(tokens)] if probable else None
    piece = SimpleNamespace(text=text, token_ids=list(range(tokens)), finish_reason=finish_reason, logprobs=found)
    return SimpleNamespace(outputs=[piece], num_cached_tokens=cached)


def _read(output: Output, *pieces: Any) -> tuple[list[Delta], Any]:
    answer = Answer(may_be_empty=True)
    deltas = [delta for piece in pieces for plain in output.take(piece) for delta in answer.take(plain)]
    return deltas, answer.end()


def test_text_comes_as_it_is_and_tokens_are_counted() -> None:
    deltas, end = _read(Output(9, TextReader()), _piece("Hel", 1), _piece("", 1), _piece("lo", 2, "length", cached=4))
    assert [delta.text for delta in deltas] == ["Hel", "lo"]
    assert end.finish_reason == "length"
    assert (end.usage.prompt_tokens, end.usage.completion_tokens, end.usage.cached_tokens) == (9, 4, 4)


def test_how_probable_tokens_were_comes_no_later_than_they() -> None:
    assert sampling(_request(confidence_after=2), 9)["logprobs"] == 1
    deltas, _ = _read(Output(9, TextReader()), _piece("Hello", 2, probable=True), _piece("", 1, "stop", probable=True))
    assert [(delta.text, delta.logprobs) for delta in deltas] == [("", [-0.5, -1.5]), ("Hello", []), ("", [-0.5])]


@pytest.mark.parametrize("reason", ["abort", "error", "repetition"])
def test_an_end_that_is_none_is_a_failure(reason: str) -> None:
    with pytest.raises(EngineError, match="upstream"):
        Output(9, TextReader()).take(_piece("half", 1, reason))


def test_a_named_tool_is_called_with_what_is_written() -> None:
    read = reader(_request(tools=TOOLS, tool_choice=NAMED), None, "")
    deltas, end = _read(Output(1, read), _piece('{"city":', 1), _piece('"Oslo"}', 1, "stop"))
    (call,) = merge_tool_calls([one for delta in deltas for one in delta.tool_calls or []])
    assert call["function"] == {"name": "weather", "arguments": '{"city":"Oslo"}'}
    assert end.finish_reason == "tool_calls"


def test_required_calls_come_when_the_list_is_whole_and_never_by_half() -> None:
    calls = [{"name": "weather", "parameters": {"city": name}} for name in ("Oslo", "Paris")]
    said = msgspec.json.encode(calls).decode()
    asked = _request(tools=TOOLS, tool_choice="required")
    deltas, end = _read(Output(1, reader(asked, None, "")), _piece(said[:9], 1), _piece(said[9:], 1, "stop"))
    made = merge_tool_calls([one for delta in deltas for one in delta.tool_calls or []])
    assert [call["function"]["arguments"] for call in made] == ['{"city":"Oslo"}', '{"city":"Paris"}']
    assert end.finish_reason == "tool_calls"
    deltas, end = _read(Output(1, reader(asked, None, "")), _piece(said[:20], 1, "length"))
    assert (deltas, end.finish_reason) == ([], "length")


def test_the_tenant_of_a_generation_is_before_the_first_slash() -> None:
    assert [tenant_of(each) for each in ("acme/r/1", "acme/", "r")] == ["acme", "acme", ""]
