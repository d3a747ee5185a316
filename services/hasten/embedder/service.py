"""Answers embed: checks the limits, waits for the vectors, sends them back; the model runs in one thread."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hasten.bus import Bus
from hasten.embedder.batcher import Batcher
from hasten.embedder.encoder import Encoded, Encoder
from hasten.embedder.loading import load
from hasten.embedder.settings import Settings
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.failure import Failed
from hasten.quantised import SCALE_BYTES, quantised
from hasten.service import Call, Service

LIMIT, WAITING = 512, 512
"""Requests at once and in line; what really bounds the work is `max_waiting`, in texts."""
BASE64 = 4 / 3


class Embedder:
    """The embedder with one loaded model. `encoder` replaces the one that the settings name."""

    def __init__(self, settings: Settings, bus: Bus, encoder: Encoder | None = None) -> None:
        self._settings, self._bus = settings, bus
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder")
        self._encoder = encoder
        self._batcher: Batcher | None = None
        self._service = Service(bus, "embedder", "Turns texts into vectors.", report=self.report)
        self._service.answer(EMBED, self._on_embed, limit=LIMIT, waiting=WAITING)

    async def start(self) -> None:
        """Loads and checks the model, exporting it the first time; raises EncoderError when it cannot be used."""
        loop = asyncio.get_running_loop()
        if self._encoder is None:
            self._encoder = await loop.run_in_executor(self._thread, load, self._settings)
        self._batcher = Batcher(self._encoder, self._thread, self._settings.batch_tokens)
        await self._service.start()

    async def drain(self) -> None:
        """Stops hearing and answers what was accepted."""
        await self._service.drain()

    async def close(self) -> None:
        """Ends what is left after the running batch."""
        await self._service.close()
        if self._batcher is not None:
            await self._batcher.close()
        self._thread.shutdown(wait=False)

    async def _on_embed(self, request: Embed, call: Call) -> Embedded:
        encoder, batcher = self._loaded
        self._check(request, encoder, batcher)
        return _reply(await batcher.embed(request.texts, request.spans), encoder)

    @property
    def _loaded(self) -> tuple[Encoder, Batcher]:
        if self._encoder is None or self._batcher is None:
            raise Failed("unavailable", "the embedding model is not loaded yet", retry_after_ms=1000)
        return self._encoder, self._batcher

    def _check(self, request: Embed, encoder: Encoder, batcher: Batcher) -> None:
        texts, limits = request.texts, self._settings
        if request.spans and len(request.spans) != len(texts):
            raise Failed("bad_request", "spans must have one list for each text, or none", param="spans")
        for text, spans in zip(texts, request.spans, strict=False):
            if not all(0 <= start <= end <= len(text) for start, end in spans):
                raise Failed("bad_request", "a span must lie within its text, in characters", param="spans")
        if (wanted := sum(map(len, request.spans))) > (room := self._fitting_spans(encoder, len(texts))):
            raise Failed("too_large", f"{wanted} spans, at most {room} with {len(texts)} texts", param="spans")
        most = min(limits.max_texts, self._fitting(encoder))
        if len(texts) > most:
            raise Failed("too_large", f"{len(texts)} texts, at most {most} at once", param="texts")
        if (longest := max(map(len, texts), default=0)) > limits.max_chars:
            raise Failed("too_large", f"a text of {longest} characters, at most {limits.max_chars}", param="texts")
        if batcher.waiting + len(texts) > limits.max_waiting:
            raise Failed("overloaded", f"{batcher.waiting} texts are in line", retry_after_ms=limits.retry_after_ms)

    def _fitting(self, encoder: Encoder) -> int:
        """How many vectors fit into one reply of this server."""
        return int((self._bus.client.max_payload - 4096) / (encoder.dim * 4 * BASE64 + 32))

    def _fitting_spans(self, encoder: Encoder, texts: int) -> int:
        """How many vectors of stretches fit into the reply beside those of the texts."""
        left = self._bus.client.max_payload - 4096 - texts * (encoder.dim * 4 * BASE64 + 48)
        return max(0, int(left / ((encoder.dim + SCALE_BYTES) * BASE64)))

    def report(self) -> dict[str, Any]:
        """What `$SRV.STATS` adds: the model and the texts in line."""
        encoder, batcher = self._loaded
        return {"model": encoder.name, "dim": encoder.dim, "waiting_texts": batcher.waiting}


def _reply(encoded: Encoded, encoder: Encoder) -> Embedded:
    rows = encoded.vectors.astype("<f4", copy=False)
    return Embedded(
        vectors=[row.tobytes() for row in rows],
        dim=encoder.dim,
        model=encoder.name,
        truncated=encoded.truncated,
        tokens=encoded.tokens,
        spans=[quantised(rows) for rows in encoded.spans],
    )


def build(settings: Settings, bus: Bus) -> Embedder:
    """The whole wiring of the service."""
    return Embedder(settings, bus)
