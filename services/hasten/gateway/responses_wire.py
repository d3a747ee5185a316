"""An answer in the form of OpenAI's Responses API: a response object whose items grow by named events, or that object
alone."""

from collections.abc import Iterator
from typing import Any

import msgspec

from hasten.gateway.call_numbers import CallNumbers
from hasten.gateway.errors import status_of
from hasten.gateway.head import Head
from hasten.messages.chat import Chunk, Done, Usage
from hasten.messages.failure import Failure

Event = dict[str, Any]
_ECHOED: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""What a response repeats of its request, and what it says where that is silent."""
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def usage_object(usage: Usage) -> dict[str, Any]:
    """The Responses API's usage."""
    details = usage.completion_tokens_details or {}
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0, **details},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


class _Item:
    """An item of the output while it grows."""

    def __init__(self, at: int, kind: str, identity: str) -> None:
        self.at, self.kind, self.id = at, kind, identity
        self.pieces: list[str] = []
        self.logprobs: list[dict[str, Any]] = []
        self.name = self.call_id = ""
        self.begun = False

    @property
    def text(self) -> str:
        """What it holds so far."""
        return "".join(self.pieces)

    def part(self) -> dict[str, Any]:
        """Its one content part."""
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": self.text}
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": self.logprobs}

    def plain(self, status: str) -> dict[str, Any]:
        """The item as an object."""
        own: dict[str, Any] = {"id": self.id, "type": self.kind, "status": status}
        if self.kind == "function_call":
            return {**own, "call_id": self.call_id, "name": self.name, "arguments": self.text}
        content = [self.part()] if self.pieces else []
        role: dict[str, Any] = {"role": "assistant"} if self.kind == "message" else {"summary": []}
        return {**own, **role, "content": content}


class ResponsesWire:
    """One response. `asked` is the body of its request; what may tell the model must have been seen by `head` before
    the first chunk."""

    def __init__(self, head: Head, created: int, asked: dict[str, Any]) -> None:
        self._head, self._created, self._asked = head, created, asked
        self._items: list[_Item] = []
        self._open: _Item | None = None
        self._calls: dict[int, _Item] = {}
        self._numbers = CallNumbers()
        self._sequence = 0
        self._model = ""

    def frames(self, event: Any) -> bytes:
        """The named events of one event of the stream; none for what a client does not see."""
        return b"".join(map(self._frame, self._events(event)))

    def see(self, event: Any) -> None:
        """Takes in one event of a whole answer."""
        for _ in self._events(event):
            pass

    def body(self, done: Done) -> dict[str, Any]:
        """The whole response, whose events have been seen."""
        return self._ended(done)

    def _frame(self, event: Event) -> bytes:
        numbered = {**event, "sequence_number": self._sequence}
        self._sequence += 1
        return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), msgspec.json.encode(numbered))

    def _events(self, event: Any) -> Iterator[Event]:
        if not isinstance(event, Chunk | Done | Failure):
            return
        if not self._model:
            self._model = self._head.model
            yield from (
                {"type": f"response.{word}", "response": self._response()} for word in ("created", "in_progress")
            )
        if isinstance(event, Chunk):
            yield from self._chunk(event)
        elif isinstance(event, Failure):
            failed = self._response(status="failed", error=_error(event), output=self._output("incomplete"))
            yield {"type": "response.failed", "response": failed}
        else:
            yield from self._close(*self._items, status=_status(event))
            response = self._ended(event)
            yield {"type": f"response.{response['status']}", "response": response}

    def _response(self, **more: Any) -> dict[str, Any]:
        echoed = {
            name: value if self._asked.get(name) is None else self._asked[name] for name, value in _ECHOED.items()
        }
        fixed = {"background": False, "error": None, "incomplete_details": None, "previous_response_id": None}
        return {
            "id": f"resp_{self._head.request_id}",
            "object": "response",
            "created_at": self._created,
            "status": "in_progress",
            "model": self._model,
            "output": [],
            "usage": None,
            "store": False,
            **fixed,
            **echoed,
            **more,
        }

    def _ended(self, done: Done) -> dict[str, Any]:
        status = _status(done)
        reason = _INCOMPLETE.get(done.finish_reason)
        return self._response(
            status=status,
            output=self._output(status),
            usage=usage_object(done.usage),
            incomplete_details={"reason": reason} if reason else None,
        )

    def _output(self, status: str) -> list[dict[str, Any]]:
        """The items; only the last one can have been cut short."""
        last = self._items[-1] if self._items else None
        return [item.plain(status if item is last else "completed") for item in self._items]

    def _chunk(self, chunk: Chunk) -> Iterator[Event]:
        if chunk.reasoning:
            yield from self._say("reasoning", chunk.reasoning, [])
        if chunk.text or chunk.logprobs:
            yield from self._say("message", chunk.text, chunk.logprobs or [])
        for call in chunk.tool_calls or ():
            yield from self._call(call)

    def _say(self, kind: str, text: str, logprobs: list[dict[str, Any]]) -> Iterator[Event]:
        item = self._open
        if item is None or item.kind != kind:
            if item is not None:
                yield from self._close(item, status="completed")
            item = self._open = self._new(kind)
            yield from self._begin(item)
            yield self._of(item, "response.content_part.added", content_index=0, part=item.part())
        item.pieces.append(text)
        item.logprobs += logprobs
        if kind == "reasoning":
            yield self._of(item, "response.reasoning_text.delta", content_index=0, delta=text)
        else:
            yield self._of(item, "response.output_text.delta", content_index=0, delta=text, logprobs=logprobs)

    def _call(self, delta: dict[str, Any]) -> Iterator[Event]:
        """One fragment of a tool call; calls may take turns, and one is told of when its name is known."""
        numbered = self._numbers.numbered(delta)
        function = numbered.get("function") or {}
        if numbered["index"] not in self._calls:
            if self._open is not None:
                yield from self._close(self._open, status="completed")
            self._calls[numbered["index"]] = self._new("function_call")
        item = self._calls[numbered["index"]]
        item.call_id = item.call_id or numbered.get("id") or f"call_{self._head.request_id}_{item.at}"
        item.name += function.get("name") or ""
        piece = function.get("arguments") or ""
        if not item.begun and item.name:
            yield from self._begin(item)
            piece = item.text + piece
            item.pieces.clear()
        item.pieces.append(piece)
        if item.begun and piece:
            yield self._of(item, "response.function_call_arguments.delta", delta=piece)

    def _new(self, kind: str) -> _Item:
        prefix = {"reasoning": "rs", "message": "msg", "function_call": "fc"}[kind]
        item = _Item(len(self._items), kind, f"{prefix}_{self._head.request_id}_{len(self._items)}")
        self._items.append(item)
        return item

    def _begin(self, item: _Item) -> Iterator[Event]:
        item.begun = True
        empty = {**item.plain("in_progress"), **({"arguments": ""} if item.kind == "function_call" else {})}
        yield {"type": "response.output_item.added", "output_index": item.at, "item": empty}

    def _close(self, *items: _Item, status: str) -> Iterator[Event]:
        for item in items:
            if not item.begun:
                continue
            item.begun = False
            self._open = None if item is self._open else self._open
            yield from self._last_words(item)
            whole = item.plain(status if item is self._items[-1] else "completed")
            yield {"type": "response.output_item.done", "output_index": item.at, "item": whole}

    def _last_words(self, item: _Item) -> Iterator[Event]:
        if item.kind == "function_call":
            done = "response.function_call_arguments.done"
            yield self._of(item, done, name=item.name, arguments=item.text)
            return
        if item.kind == "reasoning":
            yield self._of(item, "response.reasoning_text.done", content_index=0, text=item.text)
        else:
            done = "response.output_text.done"
            yield self._of(item, done, content_index=0, text=item.text, logprobs=item.logprobs)
        yield self._of(item, "response.content_part.done", content_index=0, part=item.part())

    def _of(self, item: _Item, kind: str, **fields: Any) -> Event:
        return {"type": kind, "item_id": item.id, "output_index": item.at, **fields}


def _status(done: Done) -> str:
    return "incomplete" if done.finish_reason in _INCOMPLETE else "completed"


def _error(failure: Failure) -> dict[str, Any]:
    """The error of a response that failed in mid-stream, in the API's own few codes."""
    code = "rate_limit_exceeded" if status_of(failure) == 429 else "server_error"
    return {"code": code, "message": failure.detail or failure.code.replace("_", " ")}
