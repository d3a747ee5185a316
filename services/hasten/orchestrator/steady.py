"""Puts what a caller may send in any order into one order, so that equal requests are equal prompts; pure.

An engine computes a prompt anew from the first byte that differs, and templates write tools as JSON near the top.
"""

from typing import Any

import msgspec

from hasten.messages.chat import ChatRequest

_FIRST = ("type", "function", "name", "description", "enum", "properties", "parameters", "required", "items", "strict")
"""What models have seen first in the tools that they were trained with; other fields follow by name."""
_RANK = {name: at for at, name in enumerate(_FIRST)}


def steady(request: ChatRequest) -> ChatRequest:
    """The request with the fields of its tools in one order: an object of JSON has none. Lists stay as they are, and so
    does the order of the tools."""
    if not request.tools:
        return request
    return msgspec.structs.replace(request, tools=[_ordered(tool) for tool in request.tools])


def _ordered(value: Any) -> Any:
    if isinstance(value, list):
        return [_ordered(one) for one in value]
    if not isinstance(value, dict):
        return value
    names = sorted(value, key=lambda name: (_RANK.get(name, len(_RANK)), name))
    made = {name: _ordered(value[name]) for name in names}
    if isinstance(value.get("properties"), dict):
        made["properties"] = _properties(value["properties"], value.get("required"))
    return made


def _properties(properties: dict[str, Any], required: Any) -> dict[str, Any]:
    """The parameters of a tool: the required ones first, in the order of their list, then the others by name."""
    wanted = [name for name in required if name in properties] if _are_names(required) else []
    names = list(dict.fromkeys([*wanted, *sorted(properties)]))
    return {name: _ordered(properties[name]) for name in names}


def _are_names(required: Any) -> bool:
    return isinstance(required, list) and all(isinstance(name, str) for name in required)
