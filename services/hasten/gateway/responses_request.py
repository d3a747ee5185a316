"""A body of OpenAI's Responses API as the chat body that asks the same; what needs a memory or tools of ours is refused
by its name."""

from collections.abc import Callable, Iterator
from typing import Any

from hasten.messages.failure import Failed, Failure
from hasten.messages.form import refuse

_REFUSED = {
    "previous_response_id": "is not served: nothing is kept, give the whole conversation as input",
    "conversation": "is not served: nothing is kept, give the whole conversation as input",
    "background": "is not served: an answer has a reader",
    "prompt": "is not served: give instructions and input",
    "context_management": "is not served: a prompt that is too long is compressed",
    "moderation": "is not served",
}
_STORE = "cannot be true: nothing is kept; leave it out or say false, and give items whole instead of their ids"
_OWN = frozenset(
    {
        "input",
        "instructions",
        "max_output_tokens",
        "text",
        "reasoning",
        "tools",
        "tool_choice",
        "include",
        "store",
        "truncation",
        "max_tool_calls",
        "stream_options",
        "messages",
        *_REFUSED,
    }
)
"""What does not go on as it is; everything else does."""
_NAMES = {
    "max_tokens": "max_output_tokens",
    "messages": "input",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
    "verbosity": "text.verbosity",
    "logprobs": "include",
}
"""What the fields of a chat body are called in this API."""
LOGPROBS = "message.output_text.logprobs"


def chat_body(plain: dict[str, Any]) -> dict[str, Any]:
    """The chat body. Raises Failed for what is refused; what is wrong with the rest shows when that is read."""
    for name, why in _REFUSED.items():
        if plain.get(name):
            raise Failed("unsupported", f"{name} {why}", param=name)
    if plain.get("store"):
        raise Failed("unsupported", f"store {_STORE}", param="store")
    body = {name: value for name, value in plain.items() if name not in _OWN}
    body["messages"] = list(_messages(plain))
    options = (
        ("max_tokens", plain.get("max_output_tokens")),
        ("tools", _each("tools", plain.get("tools"), _tool)),
        ("tool_choice", _choice(plain.get("tool_choice"))),
    )
    return body | {name: value for name, value in options if value is not None} | _text(plain) | _told(plain)


def translated(failure: Failure) -> Failure:
    """A failure of the chat, which names its field as this API does."""
    if failure.param is None:
        return failure
    field = failure.param.split("[")[0].split(".")[0]
    name = _NAMES.get(field)
    if name is None:
        return failure
    return Failure(
        code=failure.code,
        detail=failure.detail.replace(failure.param, name),
        param=name,
        retry_after_ms=failure.retry_after_ms,
        tokens_sent=failure.tokens_sent,
        model=failure.model,
    )


def _text(plain: dict[str, Any]) -> dict[str, Any]:
    """The format of the text, how long-winded it is, and how much is thought before."""
    text, reasoning = _object("text", plain.get("text")), _object("reasoning", plain.get("reasoning"))
    found = {"verbosity": text.get("verbosity"), "reasoning_effort": reasoning.get("effort")}
    form = _object("text.format", text.get("format"))
    if form.get("type") == "json_schema":
        _object("text.format.schema", form.get("schema", ""))
        schema = {name: value for name, value in form.items() if name != "type"}
        found["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif form and form.get("type") != "text":
        found["response_format"] = form
    return {name: value for name, value in found.items() if value is not None}


def _told(plain: dict[str, Any]) -> dict[str, Any]:
    include = plain.get("include") or []
    if not isinstance(include, list) or not all(isinstance(one, str) for one in include):
        raise refuse("include", "must be a list of names")
    return {"logprobs": True} if LOGPROBS in include or plain.get("top_logprobs") else {}


def _object(name: str, value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise refuse(name, "must be an object")
    return value or {}


def _each(name: str, value: Any, read: Callable[[str, dict[str, Any]], Any]) -> list[Any] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise refuse(name, "must be a list")
    return [read(f"{name}[{at}]", _object(f"{name}[{at}]", one)) for at, one in enumerate(value)]


def _tool(where: str, plain: dict[str, Any]) -> dict[str, Any]:
    if plain.get("type") != "function":
        raise Failed(
            "unsupported", f"{where}.type can be function only: no tools are hosted here", param=f"{where}.type"
        )
    names = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: plain[name] for name in names if plain.get(name) is not None}}


def _choice(choice: Any) -> Any:
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") != "function":
        raise Failed("unsupported", "tool_choice can be auto, none, required or a function only", param="tool_choice")
    return {"type": "function", "function": {"name": choice.get("name")}}


def _messages(plain: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The turns. Calls that follow one another, or what was said with them, are one turn of the assistant."""
    instructions, given = plain.get("instructions"), plain.get("input")
    if instructions is not None:
        if not isinstance(instructions, str):
            raise refuse("instructions", "must be text")
        yield {"role": "system", "content": instructions}
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise refuse("input", "must be text or a list with at least one item")
    waiting: dict[str, Any] | None = None
    for turn in (turn for at, item in enumerate(given) for turn in _turn(f"input[{at}]", item)):
        if waiting is not None and "tool_calls" in turn:
            waiting["tool_calls"] = [*waiting.get("tool_calls", ()), *turn["tool_calls"]]
            continue
        if waiting is not None:
            yield waiting
        waiting = turn if turn["role"] == "assistant" else None
        if waiting is None:
            yield turn
    if waiting is not None:
        yield waiting


def _turn(where: str, item: Any) -> Iterator[dict[str, Any]]:
    """The turn that an item is; none for what was thought, which no engine takes back."""
    item = _object(where, item)
    match item.get("type", "message"):
        case "message":
            if item.get("role") not in ("user", "assistant", "system", "developer"):
                raise refuse(f"{where}.role", "must be user, assistant, system or developer")
            known = {name: value for name, value in item.items() if name not in ("type", "id", "status", "phase")}
            yield {**known, "content": _content(where, item.get("content"))}
        case "function_call":
            for name in ("call_id", "name", "arguments"):
                if not isinstance(item.get(name), str):
                    raise refuse(f"{where}.{name}", "must be text")
            function = {"name": item["name"], "arguments": item["arguments"]}
            call = {"id": item["call_id"], "type": "function", "function": function}
            yield {"role": "assistant", "content": None, "tool_calls": [call]}
        case "function_call_output":
            if not isinstance(item.get("call_id"), str):
                raise refuse(f"{where}.call_id", "must be text")
            yield {"role": "tool", "tool_call_id": item["call_id"], "content": _content(where, item.get("output"))}
        case "reasoning":
            return
        case "item_reference":
            raise Failed("unsupported", f"{where} cannot be a reference: store {_STORE}", param=f"{where}.type")
        case _:
            detail = f"{where}.type can be message, function_call, function_call_output or reasoning only"
            raise Failed("unsupported", detail, param=f"{where}.type")


def _content(where: str, content: Any) -> Any:
    """Text, or the parts as those of a chat."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise refuse(f"{where}.content", "must be text or content parts")
    return [_part(part) for part in content]


def _part(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") == "input_image":
        named = {"url": part.get("image_url"), "detail": part.get("detail")}
        return {"type": "image_url", "image_url": {name: value for name, value in named.items() if value is not None}}
    if isinstance(part, dict) and part.get("type") == "output_text":
        return {"type": "text", "text": part.get("text")}
    return part
