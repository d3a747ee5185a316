"""What one caller has been sent of a flight, or of the flights one after another that it took."""

from typing import Any

from msgspec import structs

from hasten.messages.chat import Chunk, Done, Note
from hasten.messages.failure import Failed, Failure
from hasten.orchestrator.domain import Plan
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.relay import SHARED
from hasten.orchestrator.spans import conclude, link
from hasten.orchestrator.timeline import data_of, since
from hasten.service import Call
from hasten.telemetry import Stopwatch


class Differs(Failed):
    """The flight says something else than the caller has been shown."""

    def __init__(self) -> None:
        super().__init__("incomplete", "the answer that is there now is not the one that was begun", retry_after_ms=0)


class Reader:
    """Sends events on to one caller and keeps what Finished says of them.

    A caller that has read a part before has been sent `chunks`: the first `skip` of the flight, or else the text
    `shown`, which the flight says as well and in whatever pieces. It gets what follows, numbered from there. After the
    last chunk it has been sent `notes`; the first `left_out` of those that the flight says there are not sent again.
    One that `rejoined` has been counted at its flight's worker before.
    """

    def __init__(
        self,
        call: Call,
        plan: Plan,
        deadline_ms: float,
        *,
        chunks: int = 0,
        skip: int = 0,
        shown: str = "",
        notes: int = 0,
        left_out: int = 0,
        rejoined: bool = False,
    ) -> None:
        self.call, self.plan, self.deadline_ms = call, plan, deadline_ms
        self.watch = Stopwatch()
        self.chunks, self._first = chunks, chunks
        self.rejoined = rejoined
        self.ttft_ms = 0.0
        self.ended: Done | Failure | None = None
        self.flight: Flight | None = None
        self.hit: dict[str, Any] = {}
        self._joined = chunks > 0
        self.notes, self._left_out, self._base = notes, left_out, 0
        self.shared = False
        self._skip, self._shown, self._owed = skip, shown, shown
        self._heard = 0

    @property
    def offset(self) -> int:
        """How many more chunks the caller has been sent than the flight has said; not for one that goes `by_text`,
        which the flight may say in other pieces."""
        return self._first - self._skip

    @property
    def base(self) -> int:
        """How many notes the caller had been sent after its last chunk when the flight began."""
        return self._base

    @property
    def by_text(self) -> bool:
        """Whether it goes on from a text."""
        return bool(self._shown)

    def has(self, shown: str) -> bool:
        """Whether the caller of a text that was shown is this one, as far as can be told."""
        return shown.startswith(self._shown)

    @property
    def waits(self) -> bool:
        """Whether this call has been sent no chunk yet."""
        return self.chunks == self._first

    @property
    def resumed(self) -> bool:
        """Whether another call has been sent the beginning."""
        return self._first > 0

    async def joined(self) -> None:
        """Says, once, that the answer is another's as well."""
        if not self._joined:
            self._joined = True
            await self._note(SHARED)

    async def take(self, event: Any, flight: Flight, shared: bool) -> None:
        """Sends an event on, with this caller's own times in the last one; raises Differs."""
        self.shared = shared
        if flight is not self.flight:
            self.flight, self._heard, self._owed = flight, 0, self._shown
            self._base = self.notes - self._left_out
            if shared:
                link(self.call, flight.timeline)
        if isinstance(event, Chunk):
            await self._chunk(event)
        elif isinstance(event, (Done, Failure)):
            await self.end(event if isinstance(event, Failure) else self._done(event, shared))
        elif self._heard < self._skip or self._owed:
            return
        elif event == SHARED:
            await self.joined()
        else:
            if isinstance(event, Note) and event.kind == "cache" and event.data.get("hit"):
                self.hit = event.data
            await self._note(event)

    async def _note(self, note: Note) -> None:
        if self._left_out:
            self._left_out -= 1
            return
        self.notes += 1
        await self.call.send(note)

    async def _chunk(self, chunk: Chunk) -> None:
        self._heard += 1
        if self._heard <= self._skip:
            return
        if self._owed:
            size = min(len(self._owed), len(chunk.text))
            if chunk.text[:size] != self._owed[:size] or chunk.reasoning or chunk.tool_calls:
                raise Differs
            self._owed = self._owed[size:]
            if size == len(chunk.text):
                return
            chunk = structs.replace(chunk, text=chunk.text[size:])
        if self.waits:
            self.ttft_ms = round(self.watch.elapsed_ms(), 3)
        if chunk.seq != self.chunks:
            chunk = structs.replace(chunk, seq=self.chunks)
        self.chunks += 1
        self.notes = self._left_out = 0
        await self.call.send(chunk)

    def _done(self, done: Done, shared: bool) -> Done:
        if self._owed:
            raise Differs
        timings = {**done.timings_ms, "total": round(self.watch.elapsed_ms(), 3)}
        cache = "shared" if shared and done.cache == "miss" else done.cache
        return structs.replace(done, ttft_ms=self.ttft_ms, timings_ms=timings, cache=cache, chunks=self.chunks)

    async def end(self, event: Done | Failure) -> None:
        """Sends the last event, and before it what ran when, where that is to be explained."""
        self.ended = event
        conclude(self.call, event, self.ttft_ms)
        if self.plan.explain and self.flight is not None:
            later_ms = self.flight.watch.elapsed_ms() - self.watch.elapsed_ms()
            await self._note(Note(kind="timeline", data=data_of(since(self.flight.timeline.stages, later_ms))))
        await self.call.send(event)
