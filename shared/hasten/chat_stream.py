"""One chat request read to its end, from however many orchestrators that takes: a lost stream is asked for again.

Client programs and the gateway read by this, so both survive the loss of an orchestrator or of their own connection.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Self

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.chat import CHAT, Accepted, ChatReply, Chunk, Done, Note
from hasten.messages.failure import Failed, Failure
from hasten.messages.resume import RESUME, Resume
from hasten.stream import Stream
from hasten.topics import random_id

SILENCE_S = 1.5
"""An orchestrator that is silent for longer is lost: it pings every half second."""
RESUME_S = 15.0
"""How long a lost answer is asked for, while there is a connection, before its end is a failure."""
PAUSE_S = 0.1
FIRST_S, LONGEST_S = 0.5, 4.0
"""Whoever is asked to go on says so at once. One that hangs may be asked in vain, several times: NATS does not know.
Each time it is waited for twice as long: one that is only overloaded would have ever more to do, for nobody."""
_GIVEN_UP = frozenset({"disconnected", "draining"})
"""How an orchestrator ends a stream that another one could go on with."""
_NOBODY_YET = _GIVEN_UP | {"unavailable", "overloaded"}


class ChatStream:
    """The events of one answer, in order and numbered without a gap, up to one Done or Failure.

    Iterate it after `open`, and leave it with `aclose` (or as a context): leaving early stops the generation. When the
    stream is lost, it goes on from what has come; when that cannot be, it ends with the Failure that says why, and what
    has come was not repeated. One that another process has read the beginning of is made with `begun`, what that one
    would ask, and the notes that were `told`.
    """

    def __init__(
        self,
        bus: Bus,
        tenant: str,
        body: dict[str, Any],
        *,
        deadline_ms: float,
        request_id: str | None = None,
        silence_s: float = SILENCE_S,
        resume_s: float = RESUME_S,
        begun: Resume | None = None,
        told: Sequence[Note] = (),
    ) -> None:
        self._bus, self._tenant, self._body = bus, tenant, body
        self._deadline_ms, self._silence_s, self._resume_s = deadline_ms, silence_s, resume_s
        self._probe = "orchestrator" if bus.serves else ""
        self.request_id = request_id or random_id()
        self._stream: Stream | None = None
        self._begun, start = begun, begun or Resume(asked_ms=int(now_ms()))
        self._asked_ms, self._last, self.notes = start.asked_ms, start.last, start.notes
        self._shown, self._plain = list(start.shown), len(start.shown) == start.last + 1
        self.replica, self._model, self._prompt = start.replica, start.model, start.prompt
        self._told = list(told)
        self._over = False
        self._until_ms, self._vain = 0.0, 0
        self._lost_by: Failure | None = None
        self.resumed = 0
        """How often it was asked for again."""

    @property
    def chunks(self) -> int:
        """How many chunks have come; `notes` is how many notes after the last of them, `replica` who sends them."""
        return self._last + 1

    async def open(self) -> Self:
        """Sends the request; raises BadName, and Failed when it could not be sent."""
        if self._begun is not None:
            self._until_ms, self._vain = min(now_ms() + self._resume_s * 1000, self._deadline_ms), 1
            self._stream = await self._ask()
            return self
        self._stream = await self._bus.stream(
            CHAT,
            self._body,
            tenant=self._tenant,
            deadline_ms=self._deadline_ms,
            request_id=self.request_id,
            idle_s=self._silence_s,
            resumable=True,
            probe=self._probe,
        )
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatReply:
        while not self._over:
            assert self._stream is not None
            event: ChatReply = await anext(self._stream)
            if isinstance(event, Failure):
                failure = await self._end_of(event)
                if failure is None:
                    continue
                event = failure
            again = self._repeats(event)
            self._see(event)
            if not again:
                return event
        raise StopAsyncIteration

    def _repeats(self, event: ChatReply) -> bool:
        """Whether the reader has been told this: that the request is accepted, or the same as by the lost replica."""
        if isinstance(event, Note):
            return (self.resumed > 0 or self._begun is not None) and event in self._told
        return isinstance(event, Accepted) and bool(self.replica)

    def _see(self, event: ChatReply) -> None:
        if isinstance(event, Note):
            self.notes += 1
            self._told.append(event)
        match event:
            case Accepted():
                self.replica = event.replica
            case Chunk():
                self._last, self._until_ms, self._vain, self._lost_by = event.seq, 0.0, 0, None
                self.notes = 0
                self._shown.append(event.text)
                self._plain = self._plain and not (event.reasoning or event.tool_calls or event.logprobs)
            case Note(kind="route", data=data):
                self._model, self._prompt = str(data.get("model", "")), str(data.get("prompt", ""))
            case Done() | Failure():
                self._over = True
            case _:
                pass

    async def _end_of(self, failure: Failure) -> Failure | None:
        """Asks for the rest; the failure to end with when there is nobody to ask, None when somebody was asked."""
        assert self._stream is not None
        while self._stream.lost or failure.code in (_NOBODY_YET if self._until_ms else _GIVEN_UP):
            self._lost_by = self._lost_by or failure
            if not await self._may_ask():
                await self._bus.cancel(CHAT, self.request_id, tenant=self._tenant)
                return self._lost_by
            self.resumed += 1
            self._vain += 1
            try:
                self._stream = await self._ask()
            except Failed as failed:
                failure = failed.failure
                continue
            return None
        return failure

    async def _may_ask(self) -> bool:
        """Waits a moment, if it was asked in vain before, and for a connection; whether there is time left."""
        if self._until_ms:
            await asyncio.sleep(PAUSE_S)
        while not self._bus.connected and now_ms() < self._deadline_ms:
            self._until_ms = 0.0
            await asyncio.sleep(PAUSE_S)
        self._until_ms = self._until_ms or min(now_ms() + self._resume_s * 1000, self._deadline_ms)
        return now_ms() < self._until_ms

    async def _ask(self) -> Stream:
        patience_s = min(FIRST_S * 2 ** (self._vain - 1), LONGEST_S)
        return await self._bus.stream(
            RESUME,
            Resume(
                last=self._last,
                replica=self.replica,
                request=self._body or None,
                shown=self._shown if self._plain else [],
                model=self._model,
                prompt=self._prompt,
                asked_ms=self._asked_ms,
                notes=self.notes,
            ),
            tenant=self._tenant,
            deadline_ms=self._deadline_ms,
            request_id=self.request_id,
            idle_s=max(self._silence_s, patience_s),
            first_s=patience_s,
            next_seq=self._last + 1,
            resumable=True,
            probe=self._probe,
        )

    async def leave(self) -> None:
        """Leaves the answer and tells nobody: it goes on for a while, and may be gone on with by somebody else."""
        if not self._over and self._stream is not None:
            self._stream.lose("the reader was lost")
            await self._stream.aclose()
        self._over = True

    async def aclose(self) -> None:
        """Leaves the answer; whoever still makes it is told to stop."""
        if self._over:
            return
        self._over = True
        if self._stream is not None:
            if self._stream.lost:
                await self._bus.cancel(CHAT, self.request_id, tenant=self._tenant)
            await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self if self._stream is not None else await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
