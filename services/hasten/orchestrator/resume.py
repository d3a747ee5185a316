"""Goes on with an answer whose stream was lost: from its flight here or at another replica, or from what was shown.

Nothing of a request outlives its replica, so the caller brings what is needed: the request, the text it has, the model
and a hash of the prompt. Such a flight is private: it is neither stored nor shared, since its beginning is the caller's
word.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import structs

from hasten.bus import Bus
from hasten.deadline import TENANT
from hasten.messages.chat import Accepted, ChatRequest, Ping, parse_chat
from hasten.messages.failure import Failed, Failure
from hasten.messages.resume import REJOIN, Resume
from hasten.orchestrator.domain import Plan, plan_of
from hasten.orchestrator.reader import Reader
from hasten.orchestrator.seat import Seat
from hasten.service import Call
from hasten.stream import Stream
from hasten.telemetry import counter
from hasten.topics import BadName, checked

SILENCE_S = 0.6
"""A replica that has the answer pings more often than this (REJOIN.ping_s)."""
_resumes = counter("resumes_total", "Lost streams that were asked for again, by where they went on", "where")
Where = Literal["here", "elsewhere", "anew", "nowhere"]


def count(where: Where) -> None:
    """Counts a lost stream that was asked for again."""
    _resumes.labels(where).inc()


def check(body: Resume) -> None:
    """Raises Failed(bad_request) for a replica that cannot be one: it goes into a subject."""
    try:
        checked("replica", body.replica or "none")
    except BadName as error:
        raise Failed("bad_request", str(error), param="replica") from None


def seated(seat: Seat | None, body: Resume) -> bool:
    """Whether what a reader lacks can be had from a seat: the flight has not failed and the numbers are of it."""
    if seat is None or seat.flight.failed:
        return False
    if seat.reader.by_text:
        return len(body.shown) == body.last + 1 and seat.reader.has("".join(body.shown))
    return 0 <= body.last + 1 - seat.reader.offset <= seat.flight.chunks


def reader_of(seat: Seat, body: Resume, call: Call) -> Reader:
    """A reader who goes on where the one of the seat was lost."""
    lost, chunks = seat.reader, body.last + 1
    where: dict[str, Any] = {"shown": "".join(body.shown)} if lost.by_text else {"skip": chunks - lost.offset}
    begins = not lost.by_text and not where["skip"]
    where |= {"notes": body.notes, "left_out": max(0, body.notes - lost.base) if begins else body.notes}
    return Reader(call, lost.plan, min(call.deadline_ms, lost.deadline_ms), chunks=chunks, rejoined=True, **where)


async def pass_on(bus: Bus, body: Resume, call: Call) -> bool:
    """Sends on what the replica says that has the answer; False when it has not, or not any more, or is lost."""
    stream = await bus.stream(
        REJOIN,
        Resume(last=body.last, notes=body.notes, shown=body.shown),
        replica=body.replica,
        headers={TENANT: call.tenant},
        deadline_ms=call.deadline_ms,
        request_id=call.request_id,
        idle_s=SILENCE_S,
        next_seq=body.last + 1,
        resumable=True,
        probe="orchestrator",
    )
    async with stream:
        try:
            return await _passed_on(stream, call)
        except asyncio.CancelledError:
            stream.lose("the reader has asked another replica")  # else its request would be cancelled there, by its id
            raise


async def _passed_on(stream: Stream, call: Call) -> bool:
    begun = False
    async for event in stream:
        if isinstance(event, Failure) and not begun:
            return False
        if isinstance(event, Failure) and stream.lost:
            raise Failed("disconnected", "the replica that had the answer was lost", retry_after_ms=100)
        begun = True
        if not isinstance(event, Accepted | Ping):
            await call.send(event)
    return True


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that was begun elsewhere, by what its caller brings."""

    request: ChatRequest
    plan: Plan
    body: Resume

    @classmethod
    def of(cls, body: Resume) -> "Begun":
        """Checks what a caller brings; raises Failed."""
        if body.request is None:
            raise Failed("not_found", "no replica has that request any more, and the request was not sent along")
        request = parse_chat(body.request)
        if len(body.shown) != body.last + 1:
            raise Failed("incomplete", "only text can be gone on from: ask anew", retry_after_ms=0)
        return cls(request=request, plan=plan_of(request), body=body)

    @property
    def text(self) -> str:
        """What the caller has been shown."""
        return "".join(self.body.shown)

    def plans(self) -> Iterator[tuple[Plan, bool]]:
        """How to go on, one after another: with whatever begins the same, then by generating the rest."""
        private = structs.replace(self.plan, share=False, store=False)
        if self.body.prompt:
            private = structs.replace(
                private, read_semantic=False, query=self.plan.query if self.request.knowledge else ""
            )
        yield private, True
        if self.body.prompt:
            yield structs.replace(private, read_exact=False), False

    def key(self, tenant: str) -> tuple[object, ...]:
        """What flights have in common that go on with the same answer."""
        return tenant, "begun", self.plan.flight, self.body.model, self.body.prompt
