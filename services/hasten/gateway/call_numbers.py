"""Which call of an answer a fragment belongs to, whatever index an engine gives it."""

from typing import Any


class CallNumbers:
    """Numbers the tool calls of one answer from 0, as clients merge them by that number alone.

    Engines that leave the index out, or number every call 0, are told apart by the ids of the calls. Clients append
    what is said again, so an id or name that an engine repeats with every fragment goes out once.
    """

    def __init__(self) -> None:
        self._calls: list[dict[str, str]] = []
        self._latest: dict[Any, int] = {}

    def numbered(self, delta: dict[str, Any]) -> dict[str, Any]:
        """The delta with its call's number as `index`."""
        index, function = delta.get("index"), delta.get("function") or {}
        number = self._number(index, delta.get("id"))
        self._latest[index], call = number, self._calls[number]
        delta = delta if call else {**delta, "type": delta.get("type") or "function"}
        fresh = _news(delta, ("id", "type"), call) | {"index": number}
        return fresh | {"function": _news(function, ("name",), call)} if function else fresh

    def _number(self, index: Any, identity: Any) -> int:
        number = self._latest.get(index)
        if number is None or (identity and identity != self._calls[number].get("id", identity)):
            self._calls.append({})
            return len(self._calls) - 1
        return number


def _news(plain: dict[str, Any], names: tuple[str, ...], told: dict[str, str]) -> dict[str, Any]:
    """The fields without those of `names` that are empty or told already; notes what is told now."""
    stale = {name for name in names if name in plain and (not plain[name] or plain[name] == told.get(name))}
    told |= {name: plain[name] for name in names if plain.get(name)}
    return {name: value for name, value in plain.items() if name not in stale}
