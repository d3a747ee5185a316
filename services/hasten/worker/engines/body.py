"""A request as OpenAI's chat body, for every engine that takes one."""

from collections.abc import Collection
from typing import Any

import msgspec

from hasten.messages.chat import Turn
from hasten.messages.generate import SAMPLING_FIELDS, Generate
from hasten.worker.engines.engine import EngineError

_NEUTRAL = {
    "parallel_tool_calls": True,
    "reasoning_effort": "none",
    "verbosity": "medium",
    "web_search_options": None,
    "logit_bias": None,
}
"""OpenAI's options that would change an answer and are no fields of ours, with what changes nothing."""
_OPTIONS = ("max_tokens", *SAMPLING_FIELDS, "tools", "tool_choice", "response_format")


def chat_body(request: Generate) -> dict[str, Any]:
    """The chat body, streamed and with usage. `extra` adds options; it never replaces one of ours.

    Log-probabilities are asked for with an alternative at least: llama.cpp tells none without.
    """
    options = {name: value for name in _OPTIONS if (value := getattr(request, name)) is not None}
    stop = {"stop": request.stop} if request.stop else {}
    wanted = request.logprobs or request.confidence_after
    probable = {"logprobs": True, "top_logprobs": max(1, request.top_logprobs or 0)} if wanted else {}
    messages = [_message(turn) for turn in request.messages]
    if request.continues:
        messages.append({"role": "assistant", "content": request.continues})
    fixed = {"messages": messages, "stream": True, "stream_options": {"include_usage": True}, "n": 1}
    return {**request.extra, **options, **stop, **probable, **fixed}


def check_options(request: Generate, honoured: Collection[str]) -> None:
    """Raises EngineError(unsupported) for an option of OpenAI's that an engine with these of its own would leave out in
    silence; what is nobody's it may leave out."""
    for name, value in request.extra.items():
        if name in _NEUTRAL and name not in honoured and value != _NEUTRAL[name]:
            raise EngineError("unsupported", f"this model does not support {name}", param=name)


def alternatives(request: Generate) -> int | None:
    """How many tokens the caller wants told of beside each of the answer's; None when it wants no log-probabilities."""
    return (request.top_logprobs or 0) if request.logprobs else None


def _message(turn: Turn) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(turn)
    plain.pop("extra", None)
    return plain
