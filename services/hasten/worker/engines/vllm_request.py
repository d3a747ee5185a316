"""A request in the words of vLLM: pure, so that it can be tried without vLLM."""

from typing import Any

from hasten.messages.chat import Turn
from hasten.messages.generate import SAMPLING_FIELDS, Generate
from hasten.worker.engines.body import check_options
from hasten.worker.engines.engine import EngineError
from hasten.worker.engines.forced import forced, insists

SAMPLING = frozenset(
    {
        "allowed_token_ids",
        "bad_words",
        "ignore_eos",
        "logit_bias",
        "min_p",
        "min_tokens",
        "repetition_penalty",
        "stop_token_ids",
        "structured_outputs",
        "top_k",
    }
)
"""The options of vLLM that a request may set; the others would steer the engine."""


def chat(request: Generate) -> dict[str, Any]:
    """What a chat template gets: the conversation, the tools if they may be used, and what it is asked beyond that."""
    asked = request.extra.get("chat_template_kwargs")
    tools = None if request.tool_choice == "none" else request.tools
    return {**(asked if isinstance(asked, dict) else {}), "conversation": _turns(request.messages), "tools": tools}


def _turns(turns: list[Turn]) -> list[dict[str, Any]]:
    """Plain messages; `developer` is a system turn to every template."""
    return [_turn(turn) for turn in turns]


def _turn(turn: Turn) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": "system" if turn.role == "developer" else turn.role, "content": turn.text}
    for name in ("name", "tool_calls", "tool_call_id"):
        if (value := getattr(turn, name)) is not None:
            plain[name] = value
    return plain


def sampling(request: Generate, room: int) -> dict[str, Any]:
    """The arguments of SamplingParams with `room` tokens left in the window; raises EngineError for what vLLM does not.

    `structured_outputs` is a plain object still. A request's own fields win over `extra`.
    """
    check_options(request, SAMPLING)
    options = {name: value for name in SAMPLING_FIELDS if (value := getattr(request, name)) is not None}
    extra = {name: value for name, value in request.extra.items() if name in SAMPLING}
    if isinstance(bias := extra.get("logit_bias"), dict):
        extra["logit_bias"] = {int(token): weight for token, weight in bias.items()}
    form = _form(request)
    return {
        **extra,
        **options,
        **({"structured_outputs": form} if form else {}),
        **({"logprobs": 1} if request.confidence_after else {}),
        "stop": request.stop,
        "max_tokens": min(request.max_tokens, room),
        "n": 1,
    }


def _form(request: Generate) -> dict[str, Any] | None:
    """What the text must look like: forced tool calls first, then the response format."""
    if insists(request):
        return {"json": forced(request)}
    form = request.response_format or {}
    match form.get("type", "text"):
        case "text":
            return None
        case "json_object":
            return {"json_object": True}
        case "json_schema":
            return {"json": (form.get("json_schema") or {}).get("schema") or {"type": "object"}}
    raise EngineError(
        "bad_request", "response_format must be text, json_object or json_schema", param="response_format"
    )
