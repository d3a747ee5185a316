"""Owns every request from its first byte to its last: admission, the shared flight, the reader's stream, the end."""

import asyncio
import contextlib
from typing import Any

import msgspec
import nats.errors

from hasten.bus import Bus
from hasten.changes.settings import Changes
from hasten.deadline import now_ms
from hasten.freshness import Freshness
from hasten.messages.chat import CHAT, FINISHED, ChatRequest, Chunk, Done, Finished, Note
from hasten.messages.failure import Failed, Failure
from hasten.orchestrator.domain import Plan, plan_of
from hasten.orchestrator.flight import Flight, Flights
from hasten.orchestrator.path import Path
from hasten.orchestrator.recent import Recent
from hasten.orchestrator.settings import Settings
from hasten.service import Call, Service
from hasten.telemetry import Stopwatch, counter, histogram
from hasten.topics import BadName, checked, random_id

_answers = counter("answers_total", "Requests that ended, by source of the answer or failure code", "source")
_ttft = histogram("ttft_seconds", "From a request's arrival to its first chunk", "source")


CALLERS_FAULT = frozenset({"bad_request", "unsupported", "context_overflow", "model_not_found", "too_large"})
"""Failures that an identical request would meet as well."""
JOINABLE_MS = 10_000
"""A generation that has to end sooner is not joined by a request that has more time."""


class Orchestrator:
    """The orchestrator service. `start`, `drain` and `close` are its life."""

    def __init__(self, bus: Bus, settings: Settings, freshness: Freshness) -> None:
        self._bus, self._settings, self._freshness = bus, settings, freshness
        self._flights = Flights()
        self._recent = Recent(settings.recent_entries, settings.recent_s)
        self._source = random_id()
        self._finished = 0
        self._counts: dict[str, int] = {}
        self.service = Service(bus, "orchestrator", "Answers chat requests", report=self.report)
        self.service.answer(CHAT, self._chat, limit=settings.limit, waiting=settings.waiting)

    async def start(self) -> None:
        """Reads HASTEN_CHANGES up to now, then hears requests."""
        await self._freshness.start()
        await self.service.start()

    def report(self) -> dict[str, Any]:
        """Figures for `$SRV.STATS`."""
        return {"flights": len(self._flights.all), "answers": dict(self._counts), "applied": self._freshness.applied}

    async def _chat(self, request: ChatRequest, call: Call) -> None:
        for name in request.knowledge:
            _check_collection(name)
        plan = plan_of(request)
        asked_ms = min(request.deadline_ms or self._settings.deadline_ms, self._settings.max_deadline_ms)
        deadline_ms = min(call.deadline_ms, now_ms() + asked_ms)
        reader = _Reader(call, Stopwatch())
        try:
            async with asyncio.timeout(max(0.0, (deadline_ms - now_ms()) / 1000)):
                await self._follow(request, plan, call, deadline_ms, reader)
        except TimeoutError:
            await reader.end(Failure(code="deadline", detail="the deadline passed", tokens_sent=reader.chunks))
        finally:
            await self._announce(call, reader)

    async def _follow(
        self, request: ChatRequest, plan: Plan, call: Call, deadline_ms: float, reader: "_Reader"
    ) -> None:
        """Reads the flight of this request; when another's fails before its first chunk, joins or starts the next."""
        for retried in (False, True):
            flight, shared = await self._flight(request, plan, call.tenant, deadline_ms)
            if await self._read(flight, shared, call, reader, may_retry=shared and not retried):
                return

    async def _read(self, flight: Flight, shared: bool, call: Call, reader: "_Reader", *, may_retry: bool) -> bool:
        """Sends on what the flight says; False when it failed before its first chunk and may be tried again."""
        async with contextlib.aclosing(flight.events()) as events:
            if shared:
                await call.send(Note(kind="cache", data={"hit": "shared"}))
            async for event in events:
                if isinstance(event, Failure) and may_retry and not reader.chunks and event.code not in CALLERS_FAULT:
                    return False
                await reader.take(event, flight, shared)
        return True

    async def _flight(self, request: ChatRequest, plan: Plan, tenant: str, deadline_ms: float) -> tuple[Flight, bool]:
        """The flight to read and whether it is another's: joined while it runs, is fresh, and lives long enough."""
        key = (tenant, plan.flight)
        while plan.share and (flight := self._flights.find(key)) is not None:
            if flight.ended:
                await flight.settled.wait()
                continue
            lives = flight.deadline_ms >= min(deadline_ms, now_ms() + JOINABLE_MS)
            if lives and self._freshness.fresh(tenant, flight.tags, flight.read_seq):
                return flight, True
            break
        return self._launch(request, plan, tenant, deadline_ms), False

    def _launch(self, request: ChatRequest, plan: Plan, tenant: str, deadline_ms: float) -> Flight:
        flight = Flight(tenant, deadline_ms, tags=list(plan.tags), read_seq=self._freshness.applied)
        path = Path(self._bus, self._settings, self._freshness, self._recent, request, plan, flight)
        if (hit := path.remembered()) is not None:
            path.serve(hit)
            flight.settled.set()
        else:
            self._flights.launch((tenant, plan.flight) if plan.share else None, flight, path.run)
        return flight

    async def _announce(self, call: Call, reader: "_Reader") -> None:
        outcome = "done" if isinstance(reader.ended, Done) else getattr(reader.ended, "code", "cancelled")
        done = reader.ended if isinstance(reader.ended, Done) else Done(finish_reason="")
        source = done.cache if outcome == "done" else outcome
        self._finished += 1
        self._counts[source] = self._counts.get(source, 0) + 1
        _answers.labels(source).inc()
        if reader.chunks:
            _ttft.labels(source).observe(reader.ttft_ms / 1000)
        flight = reader.flight
        event = Finished(
            source=self._source,
            seq=self._finished,
            request_id=call.request_id,
            outcome=outcome,
            cache=done.cache,
            model=done.model,
            slug=flight.slug if flight else "",
            worker=flight.worker if flight else "",
            ttft_ms=reader.ttft_ms,
            worker_ttft_ms=flight.worker_ttft_ms if flight else 0.0,
            total_ms=round(reader.watch.elapsed_ms(), 3),
            usage=done.usage,
            timings_ms=done.timings_ms,
        )
        with contextlib.suppress(nats.errors.Error, Failed):
            await self._bus.publish(FINISHED, event, tenant=call.tenant)

    async def drain(self) -> None:
        """Stops hearing and waits until every answer has been read and stored."""
        await self.service.drain()
        await self._flights.settle(5)

    async def close(self) -> None:
        """Ends what is left."""
        await self.service.close()
        await self._freshness.close()


class _Reader:
    """What one caller has been sent of a flight."""

    def __init__(self, call: Call, watch: Stopwatch) -> None:
        self._call, self.watch = call, watch
        self.chunks = 0
        self.ttft_ms = 0.0
        self.ended: Done | Failure | None = None
        self.flight: Flight | None = None

    async def take(self, event: Any, flight: Flight, shared: bool) -> None:
        """Sends an event on, with this caller's own times in the last one."""
        self.flight = flight
        if isinstance(event, Chunk):
            if not self.chunks:
                self.ttft_ms = round(self.watch.elapsed_ms(), 3)
            self.chunks += 1
        elif isinstance(event, Done):
            timings = {**event.timings_ms, "total": round(self.watch.elapsed_ms(), 3)}
            cache = "shared" if shared and event.cache == "miss" else event.cache
            event = msgspec.structs.replace(event, ttft_ms=self.ttft_ms, timings_ms=timings, cache=cache)
        if isinstance(event, (Done, Failure)):
            await self.end(event)
        else:
            await self._call.send(event)

    async def end(self, event: Done | Failure) -> None:
        """Sends the last event."""
        self.ended = event
        await self._call.send(event)


def _check_collection(name: str) -> None:
    try:
        checked("collection", name)
    except BadName as error:
        raise Failed("bad_request", str(error), param="knowledge") from None


def build(settings: Settings, bus: Bus, changes: Changes | None = None) -> Orchestrator:
    """The orchestrator with its own view of HASTEN_CHANGES."""
    return Orchestrator(bus, settings, Freshness(bus, changes=changes))
