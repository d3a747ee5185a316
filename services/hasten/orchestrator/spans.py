"""The stages of a flight as OpenTelemetry spans, beneath that of the request that it was begun for."""

from hasten.messages.chat import Done
from hasten.messages.failure import Failure
from hasten.orchestrator.timeline import Mark, Timeline
from hasten.service import Call
from hasten.tracing import Tracing

_HERE = frozenset({"lease", "cascade", "checks"})
"""Stages that ask no other service, or hold what one says."""


class Spans:
    """Observes one timeline. A stage that asks another service takes its context along in `mark.headers`."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing, self.within = tracing, tracing.current()

    def began(self, mark: Mark) -> None:
        """Begins its span."""
        if mark.name == "first_token":
            return
        kind = "internal" if mark.name in _HERE else "client"
        mark.span = self._tracing.begin("orchestrator", mark.name, kind, within=self.within)
        if kind == "client":
            mark.headers = self._tracing.headers(mark.span.context)

    def ended(self, mark: Mark) -> None:
        """Ends its span, which says what came of it."""
        if mark.span is not None:
            mark.span.set({"hasten.outcome": mark.outcome, "hasten.reason": mark.reason or None})
            mark.span.end(mark.code if mark.outcome == "failed" else None)


def spans(tracing: Tracing | None) -> Spans | None:
    """What observes a flight that begins now, where there are traces."""
    return None if tracing is None else Spans(tracing)


def link(call: Call, timeline: Timeline) -> None:
    """Says in the span of a request that its answer is that of a flight which another one began."""
    if call.span is not None and isinstance(timeline.observer, Spans):
        call.span.link(timeline.observer.within)


def conclude(call: Call, ended: Done | Failure, ttft_ms: float) -> None:
    """Says in the span of a request how it ended."""
    if call.span is None or isinstance(ended, Failure):
        return
    call.span.set(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.response.model": ended.model or None,
            "gen_ai.response.finish_reasons": [ended.finish_reason],
            "gen_ai.response.time_to_first_chunk": ttft_ms / 1000 if ttft_ms else None,
            "gen_ai.usage.input_tokens": ended.usage.prompt_tokens,
            "gen_ai.usage.output_tokens": ended.usage.completion_tokens,
            "gen_ai.usage.cache_read.input_tokens": ended.usage.cached_tokens,
            "hasten.cache": ended.cache,
        }
    )
