"""A request as OpenAI's chat body, for every engine that takes one."""

from typing import Any

import msgspec

from hasten.messages.chat import Turn
from hasten.messages.generate import SAMPLING_FIELDS, Generate

_OPTIONS = ("max_tokens", *SAMPLING_FIELDS, "tools", "tool_choice", "response_format")


def chat_body(request: Generate) -> dict[str, Any]:
    """The chat body, streamed and with usage. `extra` adds options; it never replaces one of ours."""
    options = {name: value for name in _OPTIONS if (value := getattr(request, name)) is not None}
    stop = {"stop": request.stop} if request.stop else {}
    probable = {"logprobs": True, "top_logprobs": 1} if request.confidence_after else {}
    messages = [_message(turn) for turn in request.messages]
    if request.continues:
        messages.append({"role": "assistant", "content": request.continues})
    fixed = {"messages": messages, "stream": True, "stream_options": {"include_usage": True}, "n": 1}
    return {**request.extra, **options, **stop, **probable, **fixed}


def _message(turn: Turn) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(turn)
    plain.pop("extra", None)
    return plain
