"""Reranks in a thread of its own beside the event loop, within a time that is kept whatever the model does.

A model that is absent, fails or hangs costs the better order and nothing else.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence

from hasten.messages.retrieve import Passage, Reranking
from hasten.retriever import rerankers
from hasten.retriever.reranker import LongQuestion, Pace, Progress, budget, fused, read, skipped
from hasten.retriever.rerankers import Model, RerankError
from hasten.retriever.settings import Settings
from hasten.telemetry import counter, histogram, logger, where

log = logger("retriever")
_outcomes = counter("retriever_reranks_total", "Rerankings: done, partial, or why none was made", "outcome")
_seconds = histogram("retriever_rerank_seconds", "Time that a request waited for its reranking")
WARM_UPS = 3
"""Batches that show the pace before the first request."""


class _Line:
    """Work for one daemon thread, in order: one that hangs holds up neither the event loop nor the process's end."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="rerank", daemon=True).start()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def put(self, work: Callable[[], None]) -> asyncio.Future[Exception | None]:
        """Does the work when it is its turn; the future holds what it raised."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Exception | None] = loop.create_future()

        def settle(error: Exception | None) -> None:
            if not done.done():
                done.set_result(error)

        def job() -> None:
            failed: Exception | None = None
            try:
                work()
            except Exception as error:
                failed = error
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, failed)

        self._jobs.put(job)
        return done

    def close(self) -> None:
        """Lets the thread end after what is in line."""
        self._jobs.put(None)


class Reranker:
    """One replica's cross-encoder; `model` replaces the one that the settings name, and is not checked."""

    def __init__(self, settings: Settings, model: Model | None = None) -> None:
        if settings.rerank:
            rerankers.check(settings.rerank)
        self._settings, self._model, self._label = settings, model, 0
        self._pace = Pace()
        self._line: _Line | None = None
        self._waiting = 0

    @property
    def _named(self) -> bool:
        return self._model is not None or bool(self._settings.rerank)

    @property
    def active(self) -> bool:
        """Whether there is a model."""
        return self._line is not None

    def wanted(self, asked: bool | None) -> bool:
        """Whether a request that says so is reranked as far as time allows."""
        return self.active and asked is not False

    @property
    def state(self) -> str:
        """The model that reranks; empty for none."""
        return self._settings.rerank if self.active else ""

    async def start(self) -> None:
        """Loads the model and measures its pace; one that cannot be used is named in the log, and nothing reranked."""
        if not self._named:
            return
        line = _Line()
        error = await line.put(self._load)
        if error is None:
            self._line = line
            return
        line.close()
        said = str(error) if isinstance(error, RerankError) else where(error)
        log.error("passages are not reranked: %s", said)

    def _load(self) -> None:
        if self._model is None:
            named = self._settings.rerank
            self._model, self._label = rerankers.load(
                named, self._settings.rerank_tokens, self._settings.rerank_threads
            )
        text = "the pace of this machine "
        tokens = len(self._model.tokens(text)) * 2 + self._model.special
        for _ in range(WARM_UPS):
            began = time.monotonic()
            self._model.logits(text, [text])
            ended = time.monotonic()
            self._pace.learn(tokens, (ended - began) * 1000, ended)

    async def rerank(
        self, asked: bool | None, question: str, passages: Sequence[Passage], left_s: float
    ) -> tuple[list[Passage], Reranking | None]:
        """The passages in a better order if there is the time, and what was done; no account where none was asked for.

        It returns within `rerank_ms`, or its share of the `left_s` until the deadline.
        """
        if asked is None and not self._named:
            return list(passages), None
        ours = list(passages)[: self._settings.rerank_candidates]
        began = time.monotonic()
        done, scores = await self._scored(asked, question, ours, left_s)
        took_ms = (time.monotonic() - began) * 1000
        if done.scored:
            _seconds.observe(took_ms / 1000)
        _outcomes.labels(done.skipped or ("partial" if done.partial else "done")).inc()
        account = Reranking(
            scored=done.scored,
            candidates=done.candidates,
            partial=done.partial,
            skipped=done.skipped,
            took_ms=round(took_ms, 3) if done.scored else 0.0,
        )
        return fused(passages, scores, self._settings.rerank_weight), account

    async def _scored(
        self, asked: bool | None, question: str, passages: list[Passage], left_s: float
    ) -> tuple[Reranking, dict[int, float]]:
        count = len(passages)
        if self._line is None or self._model is None:
            return skipped("declined" if asked is False else "no_model", count), {}
        if asked is False or count < 2:
            return skipped("declined" if asked is False else "nothing", count), {}
        time_ms = budget(self._settings.rerank_ms, left_s * 1000)
        if self._waiting >= self._settings.rerank_waiting:
            return skipped("busy", count), {}
        progress, until = Progress(), time.monotonic() + time_ms.ms / 1000
        error = await self._in_line(self._line, self._model, question, passages, progress, until)
        scores = dict(progress.scores)
        if scores:
            return Reranking(scored=len(scores), candidates=count, partial=len(scores) < count), scores
        if isinstance(error, LongQuestion):
            return skipped("long_question", count), {}
        if error is not None:
            return skipped("failed", count), {}
        if not progress.begun:
            return skipped("deadline" if time_ms.by_deadline else "busy", count), {}
        return skipped("deadline" if time_ms.by_deadline else "slow", count), {}

    async def _in_line(
        self, line: _Line, model: Model, question: str, passages: list[Passage], progress: Progress, until: float
    ) -> Exception | None:
        """Waits until all is read, something failed, or the time is up; what is under way then counts for nothing."""

        def work() -> None:
            try:
                if time.monotonic() < until:
                    read(model, self._label, question, passages, progress, self._pace, until, time.monotonic)
            except LongQuestion:
                raise
            except Exception as error:
                log.error("reranking failed: %s", where(error))
                raise

        self._waiting += 1
        done = line.put(work)
        done.add_done_callback(self._leave)
        finished, _ = await asyncio.wait({done}, timeout=max(0.0, until - time.monotonic()))
        return done.result() if finished else None

    def _leave(self, _: object) -> None:
        self._waiting -= 1

    def close(self) -> None:
        """Lets the thread end; one that still computes ends with the process."""
        line, self._line = self._line, None
        if line is not None:
            line.close()
