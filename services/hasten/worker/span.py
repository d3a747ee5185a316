"""One generation as a span with the names of OpenTelemetry's GenAI conventions; neither prompt nor answer is in it."""

from types import TracebackType
from typing import Self

from hasten.messages.chat import Done
from hasten.messages.failure import Failed
from hasten.messages.generate import Generate
from hasten.models import Model
from hasten.tracing import Attributes, Span, Tracing

PROVIDERS = {"llama": "llama.cpp", "sim": "hasten"}
"""What serves a model, by the kind of its engine; others are called as they are."""
_REMOTE = frozenset({"openai"})
"""Engines that are elsewhere."""


class GenerationSpan:
    """A context around the work of an engine; without tracing it does nothing."""

    def __init__(self, tracing: Tracing | None, model: Model, request: Generate) -> None:
        self._tracing, self._model, self._request = tracing, model, request
        self._span: Span | None = None

    def done(self, done: Done) -> None:
        """Says what the engine has counted."""
        if self._span is None:
            return
        first_ms = done.timings_ms.get("first_token")
        self._span.set(
            {
                "gen_ai.response.model": done.model or None,
                "gen_ai.response.finish_reasons": [done.finish_reason],
                "gen_ai.response.time_to_first_chunk": first_ms / 1000 if first_ms else None,
                "gen_ai.usage.input_tokens": done.usage.prompt_tokens,
                "gen_ai.usage.output_tokens": done.usage.completion_tokens,
                "gen_ai.usage.cache_read.input_tokens": done.usage.cached_tokens,
            }
        )

    def __enter__(self) -> Self:
        if self._tracing is not None:
            kind, request = self._model.engine.kind, self._request
            about: Attributes = {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": PROVIDERS.get(kind, kind),
                "gen_ai.request.model": self._model.name,
                "gen_ai.request.stream": True,
                "gen_ai.request.max_tokens": request.max_tokens,
                "gen_ai.request.temperature": request.temperature,
                "gen_ai.request.top_p": request.top_p,
                "gen_ai.request.seed": request.seed,
                "gen_ai.request.frequency_penalty": request.frequency_penalty,
                "gen_ai.request.presence_penalty": request.presence_penalty,
                "gen_ai.output.type": "json" if request.response_format else "text",
            }
            where = "client" if kind in _REMOTE else "internal"
            self._span = self._tracing.begin("worker", f"chat {self._model.name}", where, about)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._span is None:
            return
        if error is None:
            self._span.end()
        elif isinstance(error, Failed):
            self._span.end(error.failure.code)
        else:
            self._span.end(type(error).__name__ if isinstance(error, Exception) else "cancelled")
