"""Hears requests for compression, and keeps long ones off the event loop."""

import asyncio
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hasten.bus import Bus
from hasten.compressor.byte_estimate import ByteEstimate
from hasten.compressor.domain import compress
from hasten.compressor.likeness import Likeness
from hasten.compressor.settings import Settings
from hasten.compressor.tokenizer_folder import TokenizerFolder
from hasten.compressor.tokens import TokenCounter, as_json, written
from hasten.messages.compress import COMPRESS, Compress, Compressed
from hasten.messages.failure import Failed
from hasten.service import Call, Service
from hasten.telemetry import counter, histogram
from hasten.weights import folder

_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
_before = histogram("compressor_tokens_before", "Prompt tokens that plain assembly would have had", buckets=_TOKENS)
_after = histogram("compressor_tokens_after", "Prompt tokens after compression", buckets=_TOKENS)
_seconds = histogram("compressor_seconds", "Time to compress one request, by where it was done", "where")
_estimated = counter("compressor_estimated_total", "Requests whose tokens were estimated for want of a tokenizer")

_PER_PART = 4
"""Characters that a text counts for besides its own: 20,000 turns without a word took 137 ms."""


class Compressor:
    """The service: one handler, the tokenizers, and threads for long requests."""

    def __init__(self, settings: Settings, bus: Bus, tokenizers: TokenizerFolder) -> None:
        self._settings, self._policy, self._tokenizers = settings, settings.policy(), tokenizers
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="compressor")
        self._likeness = Likeness(bus, kept=settings.vectors_kept, wait_s=settings.embed_wait_ms / 1000)
        self._seen: Counter[str] = Counter()
        self._service = Service(bus, "compressor", "Fits prompts into a token budget.", report=self.report)
        self._service.answer(COMPRESS, self._compress, limit=settings.limit, waiting=settings.waiting)

    async def start(self) -> None:
        """Loads the tokenizers and hears requests from now on."""
        await asyncio.get_running_loop().run_in_executor(self._threads, self._tokenizers.load_all)
        await self._service.start()

    async def drain(self) -> None:
        """Stops hearing and answers what was accepted."""
        await self._service.drain()

    async def close(self) -> None:
        """Stops what is left."""
        await self._service.close()
        await self._likeness.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def report(self) -> dict[str, Any]:
        """Counts since the start: requests, their tokens before and after, overflows; and the tokenizers in memory."""
        return {**self._seen, "tokenizers": self._tokenizers.loaded}

    async def _compress(self, request: Compress, call: Call) -> Compressed:
        started = time.perf_counter()
        similar = await self._similar(request, call)
        known = self._tokenizers.known(request.tokenizer)
        inline = known is not None and _characters(request) <= self._settings.inline_characters
        try:
            if known is not None and inline:
                made = self._with(known, request, similar)
            else:
                loop = asyncio.get_running_loop()
                made = await loop.run_in_executor(self._threads, self._in_thread, request, similar)
        except Failed as failed:
            self._seen[failed.failure.code] += 1
            raise
        self._record(made, time.perf_counter() - started, "loop" if inline else "thread")
        return made

    async def _similar(self, request: Compress, call: Call) -> list[float]:
        """How like the first question the examples are; nothing where so few characters fit anyway."""
        first = next((turn.text for turn in request.messages if turn.role == "user"), "")
        shown = sum(len(one.user) + len(one.assistant) for one in request.examples)
        if not first or shown <= self._policy.shares.examples * request.token_budget:
            return []
        return await self._likeness.of(first, [one.user for one in request.examples], call.tenant, call.remaining_s())

    def _in_thread(self, request: Compress, similar: list[float]) -> Compressed:
        known = self._tokenizers.known(request.tokenizer)
        return self._with(known or self._tokenizers.load(request.tokenizer), request, similar)

    def _with(self, tokens: TokenCounter, request: Compress, similar: list[float]) -> Compressed:
        if tokens.name == ByteEstimate.name:
            _estimated.inc()
        return compress(request, tokens, self._policy, similar)

    def _record(self, made: Compressed, seconds: float, where: str) -> None:
        _before.observe(made.tokens_before)
        _after.observe(made.tokens_after)
        _seconds.labels(where).observe(seconds)
        self._seen.update(requests=1, tokens_before=made.tokens_before, tokens_after=made.tokens_after)


def _characters(request: Compress) -> int:
    """How much there is to read: every text that is counted, whatever part it is in, and some for each part."""
    texts = [text for turn in request.messages for text in (written(turn), turn.name or "", turn.tool_call_id or "")]
    texts += [text for one in request.passages for text in (one.title, one.heading, one.text)]
    texts += [text for one in request.examples for text in (one.user, one.assistant)]
    texts.append(as_json(request.tools or []))
    return sum(map(len, texts)) + _PER_PART * (len(texts) + sum(len(one.sentences) for one in request.passages))


def build(settings: Settings, bus: Bus) -> Compressor:
    """The compressor as the settings describe it."""
    models = folder(Path(settings.data))
    tokenizers = TokenizerFolder(models, counts_kept=settings.counts_kept, part_tokens=settings.part_tokens)
    return Compressor(settings, bus, tokenizers)
