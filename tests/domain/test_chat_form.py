"""OpenAI's chat body: what nobody can answer is refused by its name, and several spellings of one thing are one."""

from typing import Any

import pytest

from hasten.fingerprint import fingerprint
from hasten.messages.chat import parse_chat
from hasten.messages.failure import Failed

HI = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def refused(body: dict[str, Any]) -> tuple[str, str | None]:
    with pytest.raises(Failed) as caught:
        parse_chat({"messages": [HI], **body})
    return caught.value.failure.code, caught.value.failure.param


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"function_call": "auto"}, "function_call"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"audio": {"voice": "alloy"}}, "audio"),
        ({"tools": [{"type": "custom", "custom": {"name": "c"}}]}, "tools[0].type"),
        ({"tools": [TOOL, {"type": "web_search"}]}, "tools[1].type"),
        ({"messages": [HI, {"role": "assistant", "function_call": {"name": "f"}}]}, "messages[1].function_call"),
    ],
)
def test_what_openai_has_and_nobody_here_can_answer_is_unsupported(body: dict[str, Any], param: str) -> None:
    assert refused(body) == ("unsupported", param)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"reasoning_effort": 3}, "reasoning_effort"),
        ({"logit_bias": "x"}, "logit_bias"),
        ({"metadata": [1]}, "metadata"),
        ({"store": "yes"}, "store"),
        ({"frequency_penalty": 2.5}, "frequency_penalty"),
        ({"presence_penalty": -3}, "presence_penalty"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"max_completion_tokens": 0, "max_tokens": 5}, "max_completion_tokens"),
        ({"max_completion_tokens": "2"}, "max_completion_tokens"),
        ({"max_tokens": 2**54}, "max_tokens"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"function": {"name": ""}}]}, "tools[0].function"),
        ({"tools": [{"function": {"name": "f", "parameters": [1]}}]}, "tools[0].function.parameters"),
        ({"tools": [3]}, "tools[0]"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"schema": {}}}, "response_format.type"),
        ({"response_format": "json"}, "response_format"),
        ({"stop": [1]}, "stop[0]"),
        ({"n": 0}, "n"),
        ({"n": True}, "n"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [HI, {"role": "assistant", "content": None}]}, "messages[1].content"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [HI, {"role": "assistant", "tool_calls": [{"id": "c"}]}]}, "messages[1].tool_calls[0].function"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"content": "hi"}]}, "messages[0]"),
    ],
)
def test_what_is_malformed_is_a_bad_request_that_says_where(body: dict[str, Any], param: str) -> None:
    assert refused(body) == ("bad_request", param)


@pytest.mark.parametrize(
    "same",
    [
        {"functions": None, "function_call": None, "audio": None, "parallel_tool_calls": None},
        {"tools": [], "tool_choice": "auto"},
        {"tools": [], "parallel_tool_calls": True, "tool_choice": "none"},
        {"stop": []},
        {"stop": ""},
        {"stop": [""]},
        {"cache": {"mode": None, "tags": None, "scope": None}},
        {"logprobs": False},
        {"messages": [{**HI, "refusal": None, "annotations": [], "audio": None, "function_call": None}]},
        {"messages": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]},
    ],
)
def test_what_clients_say_of_nothing_says_nothing(same: dict[str, Any]) -> None:
    assert fingerprint(parse_chat({"messages": [HI], **same})) == fingerprint(parse_chat({"messages": [HI]}))


def test_an_answer_without_calls_is_said_again_without_them() -> None:
    said = {"role": "assistant", "content": "x", "tool_calls": []}
    assert parse_chat({"messages": [HI, said, HI]}).messages[1].tool_calls is None


def test_a_refusal_that_is_repeated_is_what_was_answered() -> None:
    said: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "refusal": "I cannot."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot."}]},
    ]
    assert [parse_chat({"messages": [HI, turn, HI]}).messages[1].text for turn in said] == ["I cannot.", "I cannot."]


def test_a_whole_answer_with_calls_can_be_said_again() -> None:
    """As openai-python gives it: every field that the answer does not have is there and null."""
    said = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "tool_calls": [CALL],
    }
    turns = [HI, said, {"role": "tool", "tool_call_id": "c1", "content": "4"}]
    turn = parse_chat({"messages": turns, "tools": [TOOL], "tool_choice": "auto"}).messages[1]
    assert (turn.content, turn.tool_calls, turn.extra) == (None, [CALL], {})
