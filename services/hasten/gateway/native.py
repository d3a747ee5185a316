"""Answers in our own events, which any gateway can go on with: asked here, taken over here, owned by a tenant."""

from collections.abc import Mapping
from typing import Any

from starlette.types import Scope

from hasten.bus import Bus
from hasten.caller import Caller
from hasten.chat_stream import ChatStream
from hasten.deadline import now_ms
from hasten.gateway.allowance import Amount
from hasten.gateway.answer import Answer, Numbered
from hasten.gateway.domain import ask_of
from hasten.gateway.ledger import Ledger
from hasten.gateway.mark import Mark
from hasten.gateway.meter import Meter, estimated_tokens
from hasten.gateway.rates import Grant, Rates
from hasten.gateway.record import Record
from hasten.gateway.settings import Settings
from hasten.messages.chat import CHAT, Accepted, parse_chat
from hasten.messages.failure import Failed, Failure
from hasten.messages.streamed import TAKEN, Opened, Taken

NOT_THERE = "there is no answer of this id to go on with"
"""Said alike of what never was, what is forgotten and what is another's."""
STOPPING = "the gateway is being stopped; go on at another one"


class Resumed:
    """Where a reader goes on: the events that are written down, and the answer that follows where it has not ended."""

    def __init__(self, known: list[Numbered], answer: Answer | None) -> None:
        self.known, self.answer = known, answer


class Native:
    """The answers that this gateway streams in our own events, by tenant and request id."""

    def __init__(self, bus: Bus, settings: Settings, rates: Rates) -> None:
        self._bus, self._settings, self._rates = bus, settings, rates
        self._ledger = Ledger(bus, settings.resume_for_s)
        self._live: dict[tuple[str, str], Answer] = {}

    @property
    def live(self) -> int:
        """Answers being streamed."""
        return len(self._live)

    async def ask(
        self, plain: dict[str, Any], headers: Mapping[str, str], caller: Caller, request_id: str, scope: Scope
    ) -> Answer:
        """Sends a request; raises Failed for whatever is the caller's fault, and when it could not be sent."""
        ask = ask_of(plain, headers, caller.tenant)
        grant = await self._rates.admit(caller, scope, tokens=estimated_tokens(plain))
        try:
            await self._ledger.start()
            asked_ms = now_ms()
            deadline_ms = asked_ms + (ask.deadline_ms or self._settings.deadline_s * 1000)
            opened = Opened(request=ask.body, user=_owner(ask.body), asked_ms=int(asked_ms), deadline_ms=deadline_ms)
            stream = self._stream(caller.tenant, ask.body, deadline_ms, request_id)
            answer = self._answer(caller.tenant, stream, opened, grant)
            await stream.open()
        except BaseException:
            grant.end()
            raise
        return self._begun(answer)

    def _stream(
        self, tenant: str, body: dict[str, Any], deadline_ms: float, request_id: str, **begun: Any
    ) -> ChatStream:
        return ChatStream(
            self._bus,
            tenant,
            body,
            deadline_ms=deadline_ms,
            request_id=request_id,
            silence_s=self._settings.silence_s,
            resume_s=self._settings.resume_s,
            **begun,
        )

    def _answer(self, tenant: str, stream: ChatStream, opened: Opened, grant: Grant) -> Answer:
        return Answer(self._bus, self._ledger, tenant, stream, opened, grant, self._settings.max_unsent_bytes)

    def _begun(self, answer: Answer) -> Answer:
        self._live.setdefault((answer.tenant, answer.request_id), answer)
        answer.start()
        return answer

    async def resume(self, caller: Caller, mark: Mark, user: str, scope: Scope) -> Resumed:
        """Goes on after a mark; raises Failed(not_found) for what is not the caller's, and Failed(bad_request) for a
        place that the answer has never been at."""
        record = await self._owned(caller, mark.request_id, user)
        if mark.end:
            return Resumed([], None)
        if record.ended:
            if not record.has(mark.at):
                raise Failed("bad_request", "the answer has no such event", param="Last-Event-ID")
            return Resumed(self._numbered(mark, record), None)
        return await self._gone_on(caller, record, mark, scope)

    async def _owned(self, caller: Caller, request_id: str, user: str) -> Record:
        record = await self._ledger.read(caller.tenant, request_id)
        if record.opened is None or (record.opened.user and record.opened.user != user):
            raise Failed("not_found", NOT_THERE)
        return record

    def _numbered(self, mark: Mark, record: Record) -> list[Numbered]:
        last, found = record.entries[-1], list[Numbered]()
        for entry in record.after(mark.at):
            chunks, notes, end = entry.chunks, entry.notes, entry is last
            place = Mark(request_id=mark.request_id, chunks=chunks, notes=notes, end=end)
            found.append(Numbered(str(place), entry.event))
        return found

    async def _gone_on(self, caller: Caller, record: Record, mark: Mark, scope: Scope) -> Resumed:
        """Takes the answer over from whoever reads it, and asks for what follows."""
        assert record.opened is not None
        begun = record.resume(mark.at)
        opened = Opened(again=True, chunks=mark.chunks, notes=mark.notes)
        meter = Meter(estimated_tokens(record.opened.request or {}), paid=self._paid(record, mark))
        grant = await self._rates.resumed(caller, scope, meter)
        deadline_ms, body = record.opened.deadline_ms, record.opened.request or {}
        told = record.told(mark.at)
        stream = self._stream(caller.tenant, body, deadline_ms, mark.request_id, begun=begun, told=told)
        answer = self._answer(caller.tenant, stream, opened, grant)
        try:
            await self._bus.publish(
                TAKEN, Taken(writer=answer.writer), tenant=caller.tenant, request_id=mark.request_id
            )
            await self.taken(caller.tenant, mark.request_id, answer.writer)
            await stream.open()
        except BaseException:
            grant.end()
            raise
        answer.doubtful = not record.has(mark.at)
        accepted = Accepted(request_id=mark.request_id, replica=record.replica)
        known = [Numbered(str(Mark(request_id=mark.request_id)), accepted)] if mark.start else []
        return Resumed(known, self._begun(answer))

    def _paid(self, record: Record, mark: Mark) -> Amount:
        """What the beginning was charged for where it was sent."""
        assert record.opened is not None
        meter = Meter(estimated_tokens(record.opened.request or {}))
        for entry in record.upto(mark.at):
            meter.see(entry.event)
        return meter.amount(self._rates.prices)

    async def taken(self, tenant: str, request_id: str, writer: str) -> None:
        """Somebody else reads this answer from now on."""
        answer = self._live.get((tenant, request_id))
        if answer is not None and answer.writer != writer:
            answer.end(Failure(code="cancelled", detail="the answer is read elsewhere now"))
            self.forget(answer)
            await answer.leave()

    async def stop(self, caller: Caller, request_id: str, user: str) -> None:
        """Stops a generation, whoever reads it; raises Failed(not_found) for what is not the caller's."""
        await self._owned(caller, request_id, user)
        await self._bus.cancel(CHAT, request_id, tenant=caller.tenant)

    async def cancel(self, caller: Caller, request_id: str) -> None:
        """Stops a generation of this gateway's own reader."""
        await self._bus.cancel(CHAT, request_id, tenant=caller.tenant)

    def forget(self, answer: Answer) -> None:
        """Its reader has got everything, or has gone."""
        key = (answer.tenant, answer.request_id)
        if self._live.get(key) is answer:
            del self._live[key]

    def end_all(self) -> None:
        """Tells every reader that another gateway can go on with its answer."""
        for answer in list(self._live.values()):
            answer.end(Failed("draining", STOPPING, retry_after_ms=1).failure)


def _owner(body: dict[str, Any]) -> str:
    """The only user who may read the answer; empty when all of the tenant's may."""
    request = parse_chat(body)
    return (request.user or "") if request.cache.scope == "user" else ""
