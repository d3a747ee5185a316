"""Tool calls that a caller insists on: what the model writes is held to a schema, and read as calls."""

import secrets
from typing import Any, Protocol

import msgspec

from hasten.messages.generate import Generate
from hasten.worker.engines.engine import EngineError


class Reader(Protocol):
    """Makes deltas of a piece of text and its tokens; `calls` says whether there were tool calls among them."""

    calls: bool

    def read(self, text: str, tokens: list[int]) -> list[dict[str, Any]]:
        """The deltas that this piece completes."""

    def finish(self) -> list[dict[str, Any]]:
        """What is left when the text has ended."""


def insists(request: Generate) -> bool:
    """Whether a tool must be called."""
    return bool(request.tools) and request.tool_choice not in (None, "auto", "none")


def named(request: Generate) -> str | None:
    """The function that `tool_choice` names, None for anything else."""
    choice = request.tool_choice
    return (choice.get("function") or {}).get("name") if isinstance(choice, dict) else None


def forced(request: Generate) -> dict[str, Any]:
    """The schema of what a forced tool call must write: the arguments of the one that is named, or a list of calls."""
    functions = [tool.get("function") or {} for tool in request.tools or []]
    if (name := named(request)) is not None:
        for function in functions:
            if function.get("name") == name:
                return _parameters(function)
        raise EngineError("bad_request", "tool_choice names a tool that is not in tools", param="tool_choice")
    if request.tool_choice != "required":
        raise EngineError("bad_request", "tool_choice must be auto, none, required or a function", param="tool_choice")
    calls = [
        {
            "type": "object",
            "properties": {"name": {"enum": [function.get("name")]}, "parameters": _parameters(function)},
            "required": ["name", "parameters"],
        }
        for function in functions
    ]
    most = {} if request.extra.get("parallel_tool_calls", True) else {"maxItems": 1}
    return {"type": "array", "minItems": 1, **most, "items": {"anyOf": calls}}


def _parameters(function: dict[str, Any]) -> dict[str, Any]:
    return function.get("parameters") or {"type": "object", "properties": {}}


def reader(request: Generate) -> Reader:
    """What reads the text of a forced call."""
    name = named(request)
    return RequiredReader() if name is None else NamedReader(name)


def as_calls(plain: dict[str, Any], calls: Reader) -> dict[str, Any]:
    """An object of OpenAI's stream with its text read as calls."""
    choices = [_choice(one, calls) for one in plain.get("choices") or ()]
    return {**plain, "choices": choices} if choices else plain


def _choice(choice: dict[str, Any], calls: Reader) -> dict[str, Any]:
    delta, reason = choice.get("delta") or {}, choice.get("finish_reason")
    found = calls.read(text, []) if (text := delta.get("content")) else []
    found = [*found, *calls.finish()] if reason else found
    made = [call for one in found for call in one["tool_calls"]]
    kept = {name: value for name, value in delta.items() if name != "content"}
    ended = "tool_calls" if reason == "stop" and calls.calls else reason
    return {**choice, "delta": {**kept, "tool_calls": made} if made else kept, "finish_reason": ended}


def _begun(index: int, name: str, arguments: str = "") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"call_{secrets.token_hex(8)}", "type": "function", "function": function}


class NamedReader:
    """All of it is the arguments of one call."""

    calls = True

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, text: str, tokens: list[int]) -> list[dict[str, Any]]:
        """The call at the first piece, then its arguments as they come."""
        name, self._name = self._name, ""
        if name:
            return [{"tool_calls": [_begun(0, name, text)]}]
        return [{"tool_calls": [{"index": 0, "function": {"arguments": text}}]}] if text else []

    def finish(self) -> list[dict[str, Any]]:
        """Nothing is held back."""
        return []


class RequiredReader:
    """All of it is a list of calls, which are shown when it is whole."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.calls = False

    def read(self, text: str, tokens: list[int]) -> list[dict[str, Any]]:
        """Nothing yet."""
        self._pieces.append(text)
        return []

    def finish(self) -> list[dict[str, Any]]:
        """The calls; none when the list was cut off."""
        try:
            calls = msgspec.json.decode("".join(self._pieces), type=list[_Call])
        except msgspec.DecodeError:
            return []
        self.calls = bool(calls)
        made = [_begun(at, call.name, msgspec.json.encode(call.parameters).decode()) for at, call in enumerate(calls)]
        return [{"tool_calls": made}] if made else []


class _Call(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    parameters: dict[str, Any] = {}
