"""An answer put together from the events of its stream."""

import time
from typing import Any

import msgspec

from hasten.messages.chat import ChatReply, Chunk, Done, Note, Usage
from hasten.messages.failure import Failure


class Answered(msgspec.Struct, kw_only=True):
    """An answer gathered from its stream; grows with every `add`.

    `ttft_ms` and `total_ms` are measured here, from the publish to the first chunk and to the end; `cache` says where
    the answer came from (exact, semantic, shared, miss) and `timings_ms` where the time went, by the orchestrator.
    `failure` is set when the stream ended with one.
    """

    request_id: str = ""
    text: str = ""
    cache: str = ""
    model: str = ""
    finish_reason: str = ""
    ttft_ms: float | None = None
    total_ms: float = 0.0
    chunks: int = 0
    usage: Usage = Usage()
    timings_ms: dict[str, float] = {}
    notes: dict[str, dict[str, Any]] = {}
    failure: Failure | None = None
    began: float = msgspec.field(default_factory=time.perf_counter)

    def add(self, event: ChatReply) -> None:
        """Takes in one event of the stream."""
        match event:
            case Chunk():
                if self.ttft_ms is None:
                    self.ttft_ms = self._elapsed_ms()
                self.text += event.text
                self.chunks += 1
            case Note():
                self.notes = {**self.notes, event.kind: event.data}
            case Done():
                self.cache, self.model, self.finish_reason = event.cache, event.model, event.finish_reason
                self.usage, self.timings_ms = event.usage, event.timings_ms
                self.total_ms = self._elapsed_ms()
            case Failure():
                self.failure = event
                self.total_ms = self._elapsed_ms()
            case _:
                pass

    def _elapsed_ms(self) -> float:
        return (time.perf_counter() - self.began) * 1000
