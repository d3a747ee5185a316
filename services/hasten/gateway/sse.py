"""A streamed answer as server-sent events in OpenAI's form, the way strict clients want them."""

from typing import Any

import msgspec

from hasten.gateway.completion import completion_id, usage_object
from hasten.gateway.errors import error_object
from hasten.gateway.head import Head
from hasten.messages.chat import Chunk, Done
from hasten.messages.failure import Failure

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
PING = b": ping\n"
"""A comment belongs to the event after it: a blank line would make some clients dispatch an empty event."""
END = b"data: [DONE]\n\n"


def frame(data: Any) -> bytes:
    """One event."""
    return b"data: %b\n\n" % msgspec.json.encode(data)


class Frames:
    """The frames of one answer. Every chunk has the same id, created and model, so events that may still tell the model
    must have been seen by `head` before the first chunk. The role is in the first delta and in no other."""

    def __init__(self, head: Head, created: int, *, include_usage: bool) -> None:
        self._head, self._created, self._include_usage = head, created, include_usage
        self._base: dict[str, Any] = {}
        self._calls = _CallNumbers()

    def of(self, event: Any) -> bytes:
        """The frames of one event; none for what a client does not see."""
        if isinstance(event, Chunk):
            return b"".join(self._chunk({"delta": delta, "finish_reason": None}) for delta in self._deltas(event))
        if isinstance(event, Done):
            return self._done(event)
        if isinstance(event, Failure):
            return frame(error_object(event)) + END
        return b""

    def _deltas(self, chunk: Chunk) -> list[dict[str, Any]]:
        deltas: list[dict[str, Any]] = []
        if chunk.reasoning:
            deltas.append({"reasoning_content": chunk.reasoning})
        if chunk.text:
            deltas.append({"content": chunk.text})
        deltas += [{"tool_calls": [self._calls.numbered(call)]} for call in chunk.tool_calls or []]
        return deltas

    def _chunk(self, choice: dict[str, Any]) -> bytes:
        if not self._base:
            self._base = {
                "id": completion_id(self._head.request_id),
                "object": "chat.completion.chunk",
                "created": self._created,
                "model": self._head.model,
            }
            choice["delta"] = {"role": "assistant", **choice["delta"]}
        usage = {"usage": None} if self._include_usage else {}
        return frame({**self._base, "choices": [{"index": 0, **choice}], **usage})

    def _done(self, done: Done) -> bytes:
        frames = b"" if self._base else self._chunk({"delta": {"content": ""}, "finish_reason": None})
        frames += self._chunk({"delta": {}, "finish_reason": done.finish_reason})
        if self._include_usage:
            frames += frame({**self._base, "choices": [], "usage": usage_object(done.usage)})
        return frames + END


class _CallNumbers:
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
