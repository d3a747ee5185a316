"""Holds back what a small model says until nothing speaks against it, or a better model is asked in its place.

Nobody has read a draft that is given up, so no answer is ever contradicted by a later one.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hasten.deadline import now_ms
from hasten.messages.chat import ChatRequest, Chunk, Done, Turn
from hasten.messages.failure import Failure
from hasten.messages.route import Routed
from hasten.orchestrator.attempt import Attempt
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.settings import Settings
from hasten.orchestrator.signals import Bounds, Doubt, doubt, draft_of, in_time
from hasten.telemetry import counter

_cascades = counter("cascades_total", "Drafts of small models, by what became of them and why", "outcome", "reason")


class Escalation(msgspec.Struct, frozen=True, kw_only=True):
    """The draft has been given up: the better model, its worker, and its prompt."""

    routed: Routed
    messages: list[Turn]


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer of the small model, kept in case that the better one fails."""

    attempt: Attempt
    chunks: list[Chunk]
    done: Done


Find = Callable[[], Awaitable[tuple[Routed, list[Turn]] | None]]


class Cascade:
    """The drafts of one flight, of which at most one is given up for a better model.

    `above` is the model of the one that was given up, `spent` what it has cost, and `kept` that draft if it was whole.
    """

    def __init__(self, flight: Flight, request: ChatRequest, settings: Settings) -> None:
        self._flight, self._request = flight, request
        sizes = {"off": 0, "hold": settings.cascade_hold_tokens, "first_tokens": settings.cascade_first_tokens}
        self._tokens = sizes[settings.cascade]
        never = float("-inf")
        self._bounds = Bounds(
            mean_logprob=settings.cascade_mean_logprob or never, min_logprob=settings.cascade_min_logprob or never
        )
        self.above = ""
        self.spent: dict[str, Any] = {}
        self.kept: Draft | None = None

    def holds(self, routed: Routed) -> int:
        """How many tokens of an answer of this worker are held back; 0 for one that is shown as it comes."""
        return self._tokens if routed.cascade and not self.above and not self._flight.chunks else 0

    async def judged(
        self, attempt: Attempt, tokens: int, find: Find
    ) -> tuple[list[Chunk], Done | Failure | Escalation | None]:
        """Holds an attempt back until it has ended, or has said so many tokens and nothing speaks against them.

        Returns the chunks that may be shown, and how it ended, if it has: with an Escalation where `find` has brought a
        better model. Without one, and without the time for it, the draft is the answer.
        """
        with self._flight.timeline.begin("cascade") as mark:
            chunks, ended = await _held(attempt, tokens)
            why = None if isinstance(ended, Failure) else self._doubt(attempt, chunks, ended)
            mark.end("failed" if isinstance(ended, Failure) else "ran", f"doubted: {why}" if why else "not doubted")
        if isinstance(ended, Failure):
            return [], ended
        left_ms, spent_ms = self._flight.deadline_ms - now_ms(), self._flight.watch.elapsed_ms() - attempt.since_ms
        better = await find() if why is not None and in_time(left_ms, spent_ms) else None
        self._tell(attempt, why, better is not None)
        if better is None:
            return chunks, ended
        self._give_up(attempt, chunks, ended)
        return [], Escalation(routed=better[0], messages=better[1])

    def _doubt(self, attempt: Attempt, chunks: list[Chunk], done: Done | None) -> Doubt | None:
        draft = draft_of(
            chunks,
            finish_reason=done.finish_reason if done else "",
            limited=self._request.max_tokens is not None,
            confidence=attempt.confidence,
            response_format=self._request.response_format,
        )
        return doubt(draft, self._bounds)

    def _tell(self, attempt: Attempt, why: Doubt | None, escalated: bool) -> None:
        known = msgspec.to_builtins(attempt.confidence) if attempt.confidence else {}
        said = {"model": attempt.routed.model, "escalated": escalated, **({"reason": why} if why else {}), **known}
        self._flight.note("cascade", said)
        self._flight.watch.record("cascade", attempt.since_ms)
        outcome = "escalated" if escalated else "nowhere" if why else "shown"
        _cascades.labels(outcome, why or "").inc()

    def _give_up(self, attempt: Attempt, chunks: list[Chunk], done: Done | None) -> None:
        self.above = attempt.routed.model
        known = attempt.confidence.tokens if attempt.confidence else len(chunks)
        usage = {"completion_tokens": done.usage.completion_tokens if done else known}
        prompt = {"prompt_tokens": done.usage.prompt_tokens} if done else {}
        self.spent = {"model": attempt.routed.model, **prompt, **usage}
        if done is not None and chunks:
            self.kept = Draft(attempt=attempt, chunks=chunks, done=done)

    def after_all(self) -> Draft | None:
        """The whole draft that was given up, when the better model has failed: it is the answer then."""
        if self.kept is None or self._flight.chunks:
            return None
        self.spent = {}
        self._flight.note("cascade", {"model": self.above, "escalated": False, "reason": "failed"})
        _cascades.labels("failed", "").inc()
        return self.kept


async def _held(attempt: Attempt, tokens: int) -> tuple[list[Chunk], Done | Failure | None]:
    chunks: list[Chunk] = []
    while max(len(chunks), attempt.confidence.tokens if attempt.confidence else 0) < tokens:
        event = await attempt.take()
        if not isinstance(event, Chunk):
            return chunks, event
        chunks.append(event)
    return chunks, None
