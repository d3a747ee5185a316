"""A streamed answer as server-sent events in OpenAI's form, the way strict clients want them."""

from collections import defaultdict
from typing import Any

import msgspec

from hasten.gateway.call_numbers import CallNumbers
from hasten.gateway.choices import Chosen
from hasten.gateway.completion import Completion, completion_id, usage_object
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
    """The frames of one request. Every chunk has the same id, created and model, so what may still tell the model must
    have been seen by `head` before the first chunk. The role is in the first delta of an answer and in no other."""

    def __init__(self, head: Head, created: int, *, include_usage: bool) -> None:
        self._head, self._created, self._include_usage = head, created, include_usage
        self._base: dict[str, Any] = {}
        self._numbers: defaultdict[int, CallNumbers] = defaultdict(CallNumbers)
        self._begun: set[int] = set()
        self._ended: set[int] = set()

    def of(self, event: Any) -> bytes:
        """The frames of one event; none for what a client does not see."""
        if isinstance(event, Chosen):
            if isinstance(event.event, Done):
                return self._finish(event.choice, event.event)
            return self._said(event.choice, event.event)
        if isinstance(event, Chunk):
            return self._said(0, event)
        if isinstance(event, Done):
            return self._done(event)
        if isinstance(event, Failure):
            return frame(error_object(event)) + END
        return b""

    def _said(self, at: int, chunk: Chunk) -> bytes:
        choices: list[dict[str, Any]] = [{"delta": delta, "finish_reason": None} for delta in self._deltas(at, chunk)]
        if chunk.logprobs:
            choices = choices or [{"delta": {}, "finish_reason": None}]
            choices[0]["logprobs"] = {"content": chunk.logprobs, "refusal": None}
        return b"".join(self._chunk(at, choice) for choice in choices)

    def _deltas(self, at: int, chunk: Chunk) -> list[dict[str, Any]]:
        deltas: list[dict[str, Any]] = []
        if chunk.reasoning:
            deltas.append({"reasoning_content": chunk.reasoning})
        if chunk.text:
            deltas.append({"content": chunk.text})
        if chunk.tool_calls:
            numbers = self._numbers[at]
            deltas += [{"tool_calls": [numbers.numbered(call)]} for call in chunk.tool_calls]
        return deltas

    def _chunk(self, at: int, choice: dict[str, Any]) -> bytes:
        if not self._base:
            self._base = {
                "id": completion_id(self._head.request_id),
                "object": "chat.completion.chunk",
                "created": self._created,
                "model": self._head.model,
            }
        if at not in self._begun:
            self._begun.add(at)
            choice["delta"] = {"role": "assistant", **choice["delta"]}
        usage = {"usage": None} if self._include_usage else {}
        return frame({**self._base, "choices": [{"index": at, **choice}], **usage})

    def _finish(self, at: int, done: Done) -> bytes:
        self._ended.add(at)
        frames = b"" if at in self._begun else self._chunk(at, {"delta": {"content": ""}, "finish_reason": None})
        return frames + self._chunk(at, {"delta": {}, "finish_reason": done.finish_reason})

    def _done(self, done: Done) -> bytes:
        frames = b"" if self._ended else self._finish(0, done)
        if self._include_usage:
            frames += frame({**self._base, "choices": [], "usage": usage_object(done.usage)})
        return frames + END


class ChatWire:
    """A chat answer as OpenAI's clients want it."""

    def __init__(self, head: Head, created: int, *, include_usage: bool) -> None:
        self._head, self._created = head, created
        self._frames = Frames(head, created, include_usage=include_usage)
        self._completion = Completion()
        self.frames, self.see = self._frames.of, self._completion.see

    def body(self, done: Done) -> dict[str, Any]:
        """The `chat.completion` object."""
        return self._completion.body(done, self._head, self._created)
