"""What one caller has been sent of a flight, or of the flights one after another that it took."""

from typing import Any

from msgspec import structs

from hasten.messages.chat import Chunk, Done, Note
from hasten.messages.failure import Failure
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.relay import SHARED
from hasten.service import Call
from hasten.telemetry import Stopwatch


class Reader:
    """Sends events on to one caller and keeps what Finished says of them."""

    def __init__(self, call: Call, watch: Stopwatch) -> None:
        self._call, self.watch = call, watch
        self.chunks = 0
        self.ttft_ms = 0.0
        self.ended: Done | Failure | None = None
        self.flight: Flight | None = None
        self.hit: dict[str, Any] = {}
        self._joined = False

    async def joined(self) -> None:
        """Says, once, that the answer is another's as well."""
        if not self._joined:
            self._joined = True
            await self._call.send(SHARED)

    async def take(self, event: Any, flight: Flight, shared: bool) -> None:
        """Sends an event on, with this caller's own times in the last one."""
        self.flight = flight
        if event == SHARED:
            await self.joined()
            return
        if isinstance(event, Chunk):
            if not self.chunks:
                self.ttft_ms = round(self.watch.elapsed_ms(), 3)
            self.chunks += 1
        elif isinstance(event, Note) and event.kind == "cache" and event.data.get("hit"):
            self.hit = event.data
        elif isinstance(event, Done):
            timings = {**event.timings_ms, "total": round(self.watch.elapsed_ms(), 3)}
            cache = "shared" if shared and event.cache == "miss" else event.cache
            event = structs.replace(event, ttft_ms=self.ttft_ms, timings_ms=timings, cache=cache)
        if isinstance(event, (Done, Failure)):
            await self.end(event)
        else:
            await self._call.send(event)

    async def end(self, event: Done | Failure) -> None:
        """Sends the last event."""
        self.ended = event
        await self._call.send(event)
