"""Keeps text from posing as the control tokens of a chat template, which would turn it into another speaker's words."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from hasten.messages.chat import SYSTEM_ROLES, Turn

_KNOWN = (
    r"<[|｜][^<>|｜\s]{1,64}[|｜]>",
    r"</?s>",
    r"<(?:bos|eos|unk|pad)>",
    r"<(?:start|end)_of_turn>",
    r"<</?SYS>>",
    r"\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\]",
)
"""ChatML, Llama 2 and 3, Mistral, Gemma, Phi, DeepSeek and their kin; a tokenizer adds its own."""

Neutraliser = Callable[[str], str]


def neutraliser(control_tokens: Iterable[str] = ()) -> Neutraliser:
    """A function that puts a space after the first character of every control token, and changes nothing else."""
    own = (re.escape(token) for token in sorted(control_tokens, key=len, reverse=True) if len(token) > 1)
    pattern = re.compile("|".join((*own, *_KNOWN)))
    return lambda text: pattern.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)


def neutral_turn(turn: Turn, neutral: Neutraliser) -> Turn:
    """The turn with its text, and the names and arguments of its tool calls, made safe; operators' turns as they are.

    JSON stays JSON: there a control token can only stand inside a string.
    """
    if turn.role in SYSTEM_ROLES:
        return turn
    content = turn.content
    if isinstance(content, str):
        content = neutral(content)
    elif content is not None:
        content = _neutral_parts(content, neutral)
    calls = [_neutral_call(call, neutral) for call in turn.tool_calls] if turn.tool_calls else turn.tool_calls
    if content == turn.content and calls == turn.tool_calls:
        return turn
    return msgspec.structs.replace(turn, content=content, tool_calls=calls)


def _neutral_parts(parts: list[dict[str, Any]], neutral: Neutraliser) -> list[dict[str, Any]]:
    """Each text part made safe, and a line's end after each where a template would join two into a control token."""
    texts = [neutral(part["text"]) if isinstance(part.get("text"), str) else None for part in parts]
    joined = "".join(text for text in texts if text is not None)
    end = "" if neutral(joined) == joined else "\n"
    return [part if text is None else {**part, "text": text + end} for part, text in zip(parts, texts, strict=True)]


def _neutral_call(call: dict[str, Any], neutral: Neutraliser) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, dict):
        return call
    safe = {name: neutral(value) if isinstance(value, str) else value for name, value in function.items()}
    return {**call, "function": safe}
