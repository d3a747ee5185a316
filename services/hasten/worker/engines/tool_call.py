"""The tool calls of one streamed answer, told apart whatever a server leaves out of them. Pure."""

import secrets
from typing import Any

import msgspec


class Calls:
    """The calls so far. With neither an index nor an id nothing but its name says that a call begins; where servers
    number all of them 0 and give no ids, it is a name that comes after whole arguments."""

    def __init__(self) -> None:
        self._anonymous = 0
        self._arguments: dict[Any, list[str]] = {}
        """What each index has of the call that it began last."""

    def numbered(self, call: dict[str, Any]) -> dict[str, Any]:
        """A delta with an index where it has neither that nor an id. The first of a call has its arguments, if only
        empty ones, and an id, by which clients give back what came of it."""
        function = call["function"]
        named = bool(function.get("name"))
        if call.get("index") is None and not call.get("id"):
            self._anonymous += named
            call = {**call, "index": self._anonymous - 1} if self._anonymous else call
        so_far = self._arguments.get(call.get("index"))
        begins = so_far is None or (named and not call.get("id") and _whole("".join(so_far)))
        if begins and (named or call.get("id")):
            self._arguments[call.get("index")] = so_far = []
        if so_far is not None:
            so_far.append(function.get("arguments") or "")
        if not (begins and named):
            return call
        made = {"id": call.get("id") or f"call_{secrets.token_hex(8)}"}
        return {**call, **made, "function": {**function, "arguments": function.get("arguments") or ""}}


def _whole(arguments: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, RecursionError):
        return False
