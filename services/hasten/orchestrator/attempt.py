"""One attempt at one worker: it can be started, waited for until its first word, read to its end, and left at any
moment, which stops the worker."""

from typing import Self

import msgspec

from hasten.bus import Bus
from hasten.deadline import TENANT
from hasten.messages.chat import ChatRequest, Chunk, Done, Note, Turn
from hasten.messages.compress import Compressed
from hasten.messages.failure import Failure
from hasten.messages.generate import CONFIDENCE, GENERATE, SAMPLING_FIELDS, Confidence, Generate
from hasten.messages.route import Routed
from hasten.orchestrator.domain import stops
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.results import Result
from hasten.orchestrator.timeline import Mark, Outcome
from hasten.stream import Stream


def generate_of(
    request: ChatRequest,
    routed: Routed,
    messages: list[Turn],
    continues: str = "",
    sent: int = 0,
    confidence_after: int = 0,
) -> Generate:
    """The worker's request: the prompt and the caller's options; the worker knows its model's defaults.

    `routed` is from `fitted`; `continues` is what was shown already, in `sent` chunks of at least a token each.
    """
    given = {name: getattr(request, name) for name in SAMPLING_FIELDS if getattr(request, name) is not None}
    return Generate(
        messages=messages,
        max_tokens=max(1, routed.max_tokens - sent),
        stop=stops(request.stop),
        logprobs=request.logprobs,
        top_logprobs=request.top_logprobs,
        tools=request.tools,
        tool_choice=request.tool_choice,
        response_format=request.response_format,
        continues=continues,
        priority=request.priority,
        confidence_after=confidence_after,
        **given,
        extra=request.extra,
    )


def fitted(routed: Routed, request: ChatRequest, compressed: Compressed) -> Routed:
    """The choice with the longest answer that its window has room for beside the prompt: at most what was asked for."""
    room = routed.context_window - compressed.tokens_after
    return msgspec.structs.replace(routed, max_tokens=max(1, min(request.max_tokens or routed.max_tokens, room)))


def cut_off(ended: Failure, bus: Bus) -> bool:
    """Whether an attempt may have ended because this replica was cut off itself, which is no fault of the worker."""
    return ended.code == "incomplete" and bus.unsettled


class Attempt:
    """A generation of one flight at one worker, as a context: `async with` starts it and leaves it.

    `take` gives every Chunk and then one Done or Failure. `first` waits for the first of these and leaves it there; it
    may be cancelled and called again. `request_id` names the attempt at the worker.
    """

    def __init__(
        self,
        bus: Bus,
        flight: Flight,
        routed: Routed,
        body: Generate,
        request_id: str,
        silence_s: float,
        *,
        beside: bool = False,
    ) -> None:
        self._bus, self._flight, self._body, self._silence_s = bus, flight, body, silence_s
        self.routed, self.request_id, self.beside = routed, request_id, beside
        self.since_ms = 0.0
        """When it was started, by the flight's watch."""
        self.confidence: Confidence | None = None
        """What the worker has said last of how probable its tokens were."""
        self._spoke_ms: float | None = None
        self._result: Result | None = None
        self._stream: Stream | None = None
        self._first: Chunk | Done | Failure | None = None
        self._marks: list[Mark] = []

    async def start(self) -> None:
        """Asks the worker; raises Failed when the request cannot be sent."""
        self.since_ms = self._flight.watch.elapsed_ms()
        names = ("hedge",) if self.beside else ("generate", "first_token")
        self._marks = [self._flight.timeline.begin(name) for name in names]
        flight, request = self._flight, f"{self._flight.tenant}/{self._flight.asked}"
        self._result = flight.results.begin(flight.id, self.routed.slug, self.routed.worker, request)
        self._stream = await self._bus.stream(
            GENERATE,
            self._body,
            slug=self.routed.slug,
            worker=self.routed.worker,
            deadline_ms=self._flight.deadline_ms,
            request_id=self.request_id,
            headers={TENANT: self._flight.tenant, **(self._marks[0].headers or {})},
            idle_s=self._silence_s,
            probe="worker",
        )

    async def first(self) -> Chunk | Done | Failure:
        """The first chunk, or the end when there is none."""
        if self._first is None:
            self._first = await self._heard()
            if self._spoke_ms is None:
                self._spoke_ms = self._flight.watch.elapsed_ms()
        return self._first

    @property
    def lost(self) -> bool:
        """Whether its end is no word of the worker: that may be well, and the way to it was cut."""
        return self._stream is not None and self._stream.lost

    @property
    def waited_ms(self) -> float:
        """How long it took to its first word, or has been silent so far."""
        until_ms = self._flight.watch.elapsed_ms() if self._spoke_ms is None else self._spoke_ms
        return until_ms - self.since_ms

    async def _heard(self) -> Chunk | Done | Failure:
        event = await self._next()
        self._mark(event)
        if self._result is not None:
            no_fault = isinstance(event, Failure) and cut_off(event, self._bus)
            self._result.heard(msgspec.structs.replace(event, code="disconnected") if no_fault else event)
        return event

    def _mark(self, event: Chunk | Done | Failure) -> None:
        where = f"{self.routed.model} on {self.routed.worker}"
        if isinstance(event, Failure):
            self._end("failed", f"{where}: {event.code}", event.code)
        elif isinstance(event, Done):
            self._end("ran", where)
        elif self._marks[-1].name == "first_token":
            self._marks[-1].end("ran", where)

    def _end(self, outcome: Outcome, reason: str, code: str = "") -> None:
        for mark in self._marks:
            mark.end(outcome, reason, code)

    async def _next(self) -> Chunk | Done | Failure:
        if self._stream is not None:
            async for event in self._stream:
                if isinstance(event, Note) and event.kind == CONFIDENCE:
                    self.confidence = msgspec.convert(event.data, Confidence)
                if isinstance(event, (Chunk, Done, Failure)):
                    return event
        return Failure(code="incomplete", detail="the worker's stream ended without a result")

    async def take(self) -> Chunk | Done | Failure:
        """The next chunk, or the end."""
        event = await self.first()
        self._first = None
        return event

    async def aclose(self) -> None:
        """Leaves the worker; one that has not ended is told to stop."""
        self._end("cancelled", f"{self.routed.model} on {self.routed.worker}: left before its end")
        if self._stream is not None:
            await self._stream.aclose()
        if self._result is not None:
            await self._result.end()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
