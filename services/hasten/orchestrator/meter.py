"""Shows how much of each template's prompts repeats, and how much of that engines had: as metrics and in reports."""

import contextlib
from typing import Any

import msgspec

from hasten.messages.cache import Answer
from hasten.messages.compress import Compressed
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.template import Templates
from hasten.telemetry import counter

Tools = list[dict[str, Any]] | None
_KINDS = ("prompt", "repeated", "cached")
_tokens = counter(
    "template_tokens_total",
    "Prompt tokens by template: all, those that repeat the prompt before, those that the engine says it had",
    "template",
    "kind",
)


class PromptMeter:
    """Counts the prompts of one replica by their templates."""

    def __init__(self) -> None:
        self._templates = Templates(_forget)

    def observe(self, flight: Flight, compressed: Compressed, answer: Answer, tools: Tools) -> None:
        """Counts the prompt that an answer was generated from; of an engine that counts nothing, our own count."""
        tokens = answer.usage.prompt_tokens or compressed.tokens_after
        usage = msgspec.structs.replace(answer.usage, prompt_tokens=tokens)
        name, repeated = self._templates.observe(
            flight.tenant, answer.model, flight.prompt, compressed.stable, compressed.stable_tokens, tools, usage
        )
        for kind, count in zip(_KINDS, (tokens, repeated, usage.cached_tokens), strict=True):
            _tokens.labels(name, kind).inc(count)

    def report(self) -> Any:
        """The templates for `$SRV.STATS`."""
        return msgspec.to_builtins(self._templates.report())


def _forget(template: str) -> None:
    for kind in _KINDS:
        with contextlib.suppress(KeyError):
            _tokens.remove(template, kind)
