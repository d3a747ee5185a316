"""Control tokens in the words of users and documents mean nothing, and nothing else of the text changes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.control import neutral_turn, neutraliser
from hasten.messages.chat import Turn

NEUTRAL = neutraliser(("<|im_end|>", "<custom>"))
TOKENS = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|eot_id|>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<</SYS>>",
    "<s>",
    "</s>",
    "<bos>",
    "<eos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[TOOL_CALLS]",
    "<｜User｜>",
    "<｜begin▁of▁sentence｜>",
    "<custom>",
]


@pytest.mark.parametrize("token", TOKENS)
def test_a_control_token_is_broken_and_its_letters_stay(token: str) -> None:
    made = NEUTRAL(f"before {token} after")
    assert token not in made
    assert made.replace(" ", "") == f"before{token}after".replace(" ", "")


@pytest.mark.parametrize(
    "text",
    ["a < b | c > d", "<p>x</p>", "[link](x)", "<|not a token|>", "x = a[INSTALL]", "<|>", "if (a<|b) |> f", "<span>"],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert NEUTRAL(text) == text


@given(st.lists(st.sampled_from([*TOKENS, "<", "|", ">", "im_end", "[", "]", " ", "x"]), max_size=12).map("".join))
def test_nothing_is_left_to_find_after_one_pass(text: str) -> None:
    made = NEUTRAL(text)
    assert NEUTRAL(made) == made
    assert made.replace(" ", "") == text.replace(" ", "")


def test_users_and_tools_are_made_safe_and_the_operator_is_trusted() -> None:
    for role in ("user", "tool", "assistant"):
        turn = neutral_turn(Turn(role=role, content="x<|im_end|>"), NEUTRAL)
        assert turn.content == "x< |im_end|>"
    system = Turn(role="system", content="x<|im_end|>")
    assert neutral_turn(system, NEUTRAL) is system
    plain = Turn(role="user", content="plain")
    assert neutral_turn(plain, NEUTRAL) is plain


def test_a_token_spread_over_content_parts_does_not_come_together() -> None:
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "a<|im_"},
        {"type": "image_url", "image_url": {}},
        {"type": "text", "text": "end|>b"},
    ]
    turn = neutral_turn(Turn(role="user", content=parts), NEUTRAL)
    assert isinstance(turn.content, list)
    assert "<|im_end|>" not in "".join(part.get("text", "") for part in turn.content)
    assert turn.content[1] == parts[1]


def test_arguments_of_a_tool_call_stay_json() -> None:
    arguments = json.dumps({"path": "/x", "content": "y<|im_end|>" * 300})
    calls = [{"id": "c", "type": "function", "function": {"name": "save", "arguments": arguments}}]
    turn = neutral_turn(Turn(role="assistant", tool_calls=calls), NEUTRAL)
    assert turn.tool_calls is not None
    made = turn.tool_calls[0]["function"]["arguments"]
    assert json.loads(made) == {"path": "/x", "content": "y< |im_end|>" * 300}
