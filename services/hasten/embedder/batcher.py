"""Runs an encoder in one thread of its own, batch after batch; what arrives meanwhile joins the next batch."""

import asyncio
import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from hasten.embedder.domain import Line, Piece, owners
from hasten.embedder.encoder import Encoded, Encoder
from hasten.embedder.pooling import Spans
from hasten.telemetry import counter, gauge, histogram

_texts = counter("embedder_texts_total", "Texts encoded")
_tokens = counter("embedder_tokens_total", "Tokens of the texts encoded, cut at the model's window")
_batch_seconds = histogram("embedder_batch_seconds", "Time of one batch in the model")
_waiting = gauge("embedder_waiting_texts", "Texts in line")


class _Request:
    """The rows of one request, filled batch by batch."""

    def __init__(self, count: int, dim: int) -> None:
        self.vectors: NDArray[np.float32] = np.empty((count, dim), dtype=np.float32)
        self.tokens = [0] * count
        self.truncated = [False] * count
        self.spans: list[NDArray[np.float32]] = [np.empty((0, dim), dtype=np.float32)] * count
        self.left = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fill(self, at: int, encoded: Encoded, row: int) -> None:
        self.vectors[at] = encoded.vectors[row]
        self.tokens[at], self.truncated[at] = encoded.tokens[row], encoded.truncated[row]
        if encoded.spans:
            self.spans[at] = encoded.spans[row]
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class Batcher:
    """Puts texts in line and hands batches to the encoder. Used from one event loop; `thread` runs nothing else."""

    def __init__(self, encoder: Encoder, thread: ThreadPoolExecutor, batch_tokens: int) -> None:
        self._encoder, self._thread = encoder, thread
        self._line = Line(batch_tokens)
        self._requests: dict[int, _Request] = {}
        self._number = 0
        self._running: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Texts in line."""
        return len(self._line)

    async def embed(self, texts: list[str], spans: Sequence[Spans] = ()) -> Encoded:
        """Encodes texts and stretches of them; a caller that is cancelled takes those out that have not begun.

        Raises what the model does."""
        request = _Request(len(texts), self._encoder.dim)
        if texts:
            await self._filled(request, texts, spans)
        return Encoded(
            vectors=request.vectors,
            tokens=request.tokens,
            truncated=request.truncated,
            spans=request.spans if spans else [],
        )

    async def _filled(self, request: _Request, texts: list[str], spans: Sequence[Spans]) -> None:
        self._number += 1
        number = self._number
        self._requests[number] = request
        self._line.add(number, texts, self._encoder.window, spans)
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._work())
        try:
            await request.done
        finally:
            del self._requests[number]
            self._line.drop(number)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while batch := self._line.next():
            _waiting.set(len(self._line))
            started = loop.time()
            try:
                encoded = await loop.run_in_executor(self._thread, self._encoded, batch)
            except Exception as error:
                self._fail(batch, error)
                continue
            _batch_seconds.observe(loop.time() - started)
            self._hand_out(batch, encoded)

    def _encoded(self, batch: list[Piece]) -> Encoded:
        spans = [piece.spans for piece in batch]
        return self._encoder.encode([piece.text for piece in batch], spans if any(spans) else ())

    def _hand_out(self, batch: list[Piece], encoded: Encoded) -> None:
        _texts.inc(len(batch))
        _tokens.inc(sum(min(count, self._encoder.window) for count in encoded.tokens))
        for row, piece in enumerate(batch):
            if (request := self._requests.get(piece.owner)) is not None:
                request.fill(piece.at, encoded, row)

    def _fail(self, batch: list[Piece], error: Exception) -> None:
        for owner in owners(batch):
            if (request := self._requests.get(owner)) is not None:
                request.fail(error)

    async def close(self) -> None:
        """Ends the work after the running batch."""
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
