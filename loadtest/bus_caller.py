"""Asks one request over the bus, with hasten's own client."""

from collections.abc import Mapping
from typing import Any

from hasten.client import Hasten
from hasten.messages.chat import Chunk, Done, Note
from hasten.messages.failure import Failed, Failure
from hasten.topics import random_id
from loadtest.price import Prices, charge
from loadtest.sample import Sample
from loadtest.stopwatch import Stopwatch


class BusCaller:
    """A tenant's program. `texts` keeps the answers in the samples."""

    def __init__(self, hasten: Hasten, prices: Prices, *, timeout_s: float = 60.0, texts: bool = False) -> None:
        self._hasten, self._prices, self._timeout_s, self._texts = hasten, prices, timeout_s, texts

    async def ask(self, body: Mapping[str, Any], due: float) -> Sample:
        """Asks a chat body that was due at a moment of `time.perf_counter`, and reads the answer to its end."""
        sample, watch = Sample(request_id=random_id()), Stopwatch(due)
        try:
            async for event in self._hasten.chat(body, timeout_s=self._timeout_s, request_id=sample.request_id):
                if isinstance(event, Chunk):
                    watch.chunk()
                    if self._texts:
                        sample.text += event.text
                else:
                    self._see(sample, event)
        except Failed as failed:
            sample.outcome, sample.detail = failed.failure.code, failed.failure.detail
        return watch.stop(sample)

    def _see(self, sample: Sample, event: Any) -> None:
        if isinstance(event, Note) and event.kind == "compress":
            sample.tokens_before, sample.tokens_after = event.data["tokens_before"], event.data["tokens_after"]
        elif isinstance(event, Failure):
            sample.outcome, sample.detail = event.code, event.detail
        elif isinstance(event, Done):
            usage = event.usage
            sample.cache, sample.model, sample.stages = event.cache, event.model, event.timings_ms
            sample.prompt_tokens, sample.completion_tokens = usage.prompt_tokens, usage.completion_tokens
            sample.cached_tokens = usage.cached_tokens
            charge(sample, self._prices)
