"""Owns every request from its first byte to its last: admission, the shared flight, the reader's stream, the end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

from hasten.bus import Bus
from hasten.changes.settings import Changes
from hasten.deadline import now_ms
from hasten.freshness import Freshness
from hasten.limit import SHARE
from hasten.messages.cache import CacheHit
from hasten.messages.chat import CHAT, ChatRequest, Chunk, Note
from hasten.messages.explain import EXPLAIN
from hasten.messages.failure import Failed, Failure
from hasten.messages.follow import FOLLOW, Basis, Follow
from hasten.messages.resume import REJOIN, RESUME, Resume
from hasten.orchestrator import resume
from hasten.orchestrator.announcer import Announcer
from hasten.orchestrator.domain import Plan, check_collections, lease_key, plan_of
from hasten.orchestrator.explain import Explainer
from hasten.orchestrator.flight import Flight, Flights
from hasten.orchestrator.guard.rules import check as check_rules
from hasten.orchestrator.lease import Lease, Leases
from hasten.orchestrator.means import means_of
from hasten.orchestrator.meter import PromptMeter
from hasten.orchestrator.path import Path
from hasten.orchestrator.reader import Differs, Reader
from hasten.orchestrator.refresh import Refresher
from hasten.orchestrator.results import Results
from hasten.orchestrator.seat import Seats
from hasten.orchestrator.settings import Settings
from hasten.orchestrator.share import Share
from hasten.orchestrator.spans import link, spans
from hasten.orchestrator.verification.checks import check as check_checks
from hasten.service import Call, Service

CALLERS_FAULT = frozenset({"bad_request", "unsupported", "context_overflow", "model_not_found", "too_large"})
"""Failures that an identical request would meet as well."""
EXPLAINED = 16
"""Requests that are explained at once."""
JOINABLE_MS = 10_000
"""A generation that has to end sooner, and cannot go on later, is not joined by a request that has more time."""
FOLLOWERS = 4096
"""Flights of other replicas that may follow ours at once; a replica follows each only once."""


class Orchestrator:
    """The orchestrator service. `start`, `drain` and `close` are its life."""

    def __init__(self, bus: Bus, settings: Settings, freshness: Freshness) -> None:
        self._bus, self._settings, self._freshness = bus, settings, freshness
        self._flights = Flights()
        self._seats = Seats(settings.grace_s)
        self._meter = PromptMeter()
        self._means = means_of(bus, settings, freshness, self._meter.observe)
        self._hedges = self._means.hedges
        self._announcer = Announcer(bus)
        self.service = Service(
            bus, "orchestrator", "Answers chat requests", report=self.report, on_cancel=self._seats.on_cancel
        )
        self._results = Results(bus)
        self._explainer = Explainer(bus, settings, self._results)
        self.service.answer(CHAT, self._chat, limit=settings.limit, waiting=settings.waiting, share=SHARE)
        self.service.answer(EXPLAIN, self._explainer.explain, limit=EXPLAINED)
        replica = self.service.id
        self.service.answer(RESUME, self._resume, limit=settings.limit, waiting=settings.waiting, share=SHARE)
        self.service.answer(REJOIN, self._rejoin, limit=FOLLOWERS, last=True, replica=replica)
        self.service.answer(FOLLOW, self._lead, limit=FOLLOWERS, last=True, replica=replica)
        self._leases = Leases(bus, replica, settings.max_deadline_ms / 1000)
        self._refresher = Refresher(self._leases, self._launch_refresh, settings.refresh_s)

    async def start(self) -> None:
        """Reads HASTEN_CHANGES up to now, then hears requests."""
        await self._freshness.start()
        await self._leases.start()
        await self.service.start()

    def report(self) -> dict[str, Any]:
        """Figures for `$SRV.STATS`."""
        return {
            "flights": len(self._flights.all),
            "seats": len(self._seats),
            "answers": dict(self._announcer.counts),
            "leases": dict(self._leases.counts),
            "hedges": dict(self._hedges.counts),
            "applied": self._freshness.applied,
            "templates": self._meter.report(),
        }

    async def _chat(self, request: ChatRequest, call: Call) -> None:
        check_collections(request)
        reader = Reader(call, plan_of(request), self._deadline_ms(request, call, now_ms()))
        await self._serve(reader, self._follow(request, reader))

    def _deadline_ms(self, request: ChatRequest, call: Call, asked_ms: float) -> float:
        wanted_ms = min(request.deadline_ms or self._settings.deadline_ms, self._settings.max_deadline_ms)
        return min(call.deadline_ms, asked_ms + wanted_ms)

    async def _serve(self, reader: Reader, reading: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(max(0.0, (reader.deadline_ms - now_ms()) / 1000)):
                await reading
        except TimeoutError:
            await reader.end(Failure(code="deadline", detail="the deadline passed", tokens_sent=reader.chunks))
        finally:
            await self._announcer.announce(reader)

    async def _resume(self, body: Resume, call: Call) -> None:
        """Goes on with a lost stream: with its flight here, or where it was, or from what the caller has of it."""
        resume.check(body)
        if resume.seated(self._seats.find(call.tenant, call.request_id), body):
            resume.count("here")
            await self._rejoin(body, call)
        elif body.replica not in ("", self.service.id) and await resume.pass_on(self._bus, body, call):
            resume.count("elsewhere")
        else:
            await self._begin_again(body, call)

    async def _rejoin(self, body: Resume, call: Call) -> None:
        seat = self._seats.find(call.tenant, call.request_id)
        if seat is None or not resume.seated(seat, body):
            raise Failed("not_found", "this replica does not have that answer any more")
        reader = resume.reader_of(seat, body, call)
        await self._serve(reader, self._read_on(seat.flight, seat.reader.shared, reader))

    async def _read_on(self, flight: Flight, shared: bool, reader: Reader) -> None:
        await self._read(flight, shared, reader, may_retry=False)

    async def _begin_again(self, body: Resume, call: Call) -> None:
        begun = resume.Begun.of(body)
        check_collections(begun.request)
        asked_ms = min(max(0, body.asked_ms) or now_ms(), now_ms())
        deadline_ms = self._deadline_ms(begun.request, call, asked_ms)
        reader = Reader(call, begun.plan, deadline_ms, chunks=len(body.shown), shown=begun.text)
        resume.count("anew")
        await self._serve(reader, self._go_on(begun, reader) if body.shown else self._follow(begun.request, reader))

    async def _go_on(self, begun: resume.Begun, reader: Reader) -> None:
        """Reads the first flight that says what was shown and more; the last one can say nothing else."""
        for flight, shared in self._flights_from(begun, reader):
            with contextlib.suppress(Differs):
                if await self._read(flight, shared, reader, may_retry=shared) == "read":
                    return
        resume.count("nowhere")
        raise Differs

    def _flights_from(self, begun: resume.Begun, reader: Reader) -> Iterator[tuple[Flight, bool]]:
        tenant, key = reader.call.tenant, begun.key(reader.call.tenant)
        for known in [(tenant, begun.plan.flight)] * begun.plan.share + [key]:
            flight = self._flights.find(known)
            if flight is not None and not flight.ended and self._joins(flight, reader.deadline_ms):
                yield flight, True
        for plan, reads in begun.plans():
            flight = self._new_flight(plan, tenant, reader.deadline_ms)
            flight.asked = reader.call.request_id
            lease = lease_key(tenant, begun.plan, self._means.epoch(tenant)) if reads and begun.plan.share else ""
            path = self._path(
                begun.request, plan, flight, Share(self._leases, self._flights, flight, lease), begun.body
            )
            self._flights.launch(key, flight, path.run)
            yield flight, False

    async def _follow(self, request: ChatRequest, reader: Reader) -> None:
        """Reads the flight of this request; joins or starts the next one when another's fails before its first chunk,
        or turns out to have been read before a change."""
        retried = False
        while True:
            flight, shared = await self._flight(request, reader.plan, reader.call.tenant, reader.deadline_ms)
            flight.asked = flight.asked or reader.call.request_id
            outcome = await self._read(flight, shared, reader, may_retry=not retried)
            if outcome == "read":
                return
            retried = retried or outcome == "failed"

    async def _read(self, flight: Flight, shared: bool, reader: Reader, *, may_retry: bool) -> str:
        """Sends on what the flight says: `read`; `failed` or `stale` when it did so before the first chunk.

        What the answer depends on is known when a note says so: at the latest then it shows whether it was read before
        a change that this request, which has joined it, came after.
        """
        async with self._reading(flight, reader) as events:
            if shared:
                await reader.joined()
            async for event in events:
                if (shared or flight.followed) and reader.waits:
                    if isinstance(event, Failure) and may_retry and event.code not in CALLERS_FAULT:
                        return "failed"
                    if isinstance(event, Note) and not self._heeds_changes(flight):
                        return "stale"
                await reader.take(event, flight, shared)
        return "read"

    @contextlib.asynccontextmanager
    async def _reading(self, flight: Flight, reader: Reader) -> AsyncIterator[AsyncIterator[Any]]:
        with self._seats.taken(reader.call, flight, reader):
            async with contextlib.aclosing(flight.events()) as events:
                yield events

    def _heeds_changes(self, flight: Flight) -> bool:
        return self._freshness.table.fresh(flight.tenant, flight.tags, flight.read_seq)

    async def _flight(self, request: ChatRequest, plan: Plan, tenant: str, deadline_ms: float) -> tuple[Flight, bool]:
        """The flight to read and whether it is another's: joined while it runs, is fresh, and lives long enough."""
        key = (tenant, plan.flight)
        while plan.share and (flight := self._flights.find(key)) is not None:
            if flight.ended:
                await flight.settled.wait()
                continue
            if self._joins(flight, deadline_ms):
                return flight, True
            break
        return self._launch(request, plan, tenant, deadline_ms), False

    def _joins(self, flight: Flight, deadline_ms: float) -> bool:
        """Whether a reader with this deadline may join; if so the flight lives as long."""
        lives = not flight.bound or flight.deadline_ms >= min(deadline_ms, now_ms() + JOINABLE_MS)
        if flight.volatile or not lives or not self._freshness.fresh(flight.tenant, flight.tags, flight.read_seq):
            return False
        flight.extend(deadline_ms)
        return True

    def _launch(self, request: ChatRequest, plan: Plan, tenant: str, deadline_ms: float) -> Flight:
        flight = self._new_flight(plan, tenant, deadline_ms)
        key = lease_key(tenant, plan, self._means.epoch(tenant)) if plan.share else ""
        path = self._path(request, plan, flight, Share(self._leases, self._flights, flight, key))
        if (hit := path.remembered()) is not None:
            path.serve(hit)
            flight.settled.set()
        else:
            self._flights.launch((tenant, plan.flight) if plan.share else None, flight, path.run)
        return flight

    def _launch_refresh(self, request: ChatRequest, plan: Plan, tenant: str, key: str, lease: Lease | None) -> Flight:
        """Starts a flight of no request, which nobody joins but under its lease: who gets a hit meanwhile is served."""
        flight = self._new_flight(plan, tenant, now_ms() + self._settings.deadline_ms)
        share = Share(self._leases, self._flights, flight, key if lease else "", lease)
        self._flights.launch(None, flight, self._path(request, plan, flight, share).run)
        return flight

    def _new_flight(self, plan: Plan, tenant: str, deadline_ms: float) -> Flight:
        read_seq, tags, observer = self._freshness.applied, list(plan.tags), spans(self._bus.tracing)
        return Flight(tenant, deadline_ms, tags=tags, read_seq=read_seq, results=self._results, observer=observer)

    def _path(
        self, request: ChatRequest, plan: Plan, flight: Flight, share: Share, begun: Resume | None = None
    ) -> Path:
        def on_hit(hit: CacheHit) -> None:
            self._refresher.consider(request, plan, flight.tenant, self._means.epoch(flight.tenant), hit)

        return Path(self._means, request, plan, flight, share, on_hit, begun)

    async def _lead(self, body: Follow, call: Call) -> None:
        """Lets another replica read along with a flight that this one leads."""
        flight = await self._flights.led(body.key)
        if flight is not None and flight.ended:
            await flight.settled.wait()
        if flight is None or flight.tenant != call.tenant or flight.ended or flight.abandoned:
            raise Failed("not_found", "this replica does not lead that flight any more")
        if not self._joins(flight, call.deadline_ms):
            raise Failed("not_found", "that flight cannot be joined any more")
        link(call, flight.timeline)
        async with contextlib.aclosing(flight.events()) as events:
            told: Basis | None = flight.basis
            await call.send(told)
            async for event in events:
                if told is not None and flight.basis != told:
                    await call.send(told := flight.basis)
                if isinstance(event, Chunk):
                    told = None
                await call.send(event)

    async def drain(self) -> None:
        """Stops hearing and waits until every answer has been read, here and elsewhere, and stored."""
        await self.service.drain()
        self._seats.close()
        await self._refresher.close()
        await self._flights.settle(5)
        await self._leases.close()

    async def close(self) -> None:
        """Ends what is left."""
        await self.service.close()
        self._seats.close()
        await self._refresher.close()
        await self._leases.close()
        await self._freshness.close()


def check_settings(settings: Settings) -> None:
    """Raises SettingsError for rules and checks that cannot be kept."""
    check_rules(settings.guard)
    check_checks(settings.checks)


def build(settings: Settings, bus: Bus, changes: Changes | None = None) -> Orchestrator:
    """The orchestrator with its own view of HASTEN_CHANGES."""
    return Orchestrator(bus, settings, Freshness(bus, changes=changes))
