"""The reader's end of a stream of replies: in order, without a gap, and never silent without saying so."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

import msgspec

from hasten.deadline import now_ms
from hasten.messages.chat import Accepted, Chunk, Done
from hasten.messages.failure import Failure

IDLE_S = 5.0
"""A stream that is silent for longer has lost its sender: senders ping every second."""
PROBE_S = 0.4
"""After this silence a sender is looked for: its process may have ended."""
LATE_S = 0.25
"""A reader that wakes up so much too late, or by a quarter of the silence it allows, has stood still itself: what came
meanwhile may not have been read yet."""


class Stream:
    """The replies to one request, in order; iterate it, and leave it with `aclose` (or as a context).

    Yields the topic's reply Structs and ends after Done or Failure. A gap in the sequence, silence for `idle_s` and a
    passed deadline end it with a Failure of their own: silence is never taken for an answer. A silence in which this
    process stood still counts anew, once. When the reader leaves before the sender has ended, `abandon` tells the
    sender; not so at the end of a `resumable` one that was only lost. Chunks are numbered from `next_seq`. The first
    event has to come within `first_s`, if that is given. `probe` is called after `PROBE_S` of silence with the replica
    that sends, if that has said who it is.
    """

    def __init__(
        self,
        deadline_ms: float,
        idle_s: float,
        forget: Callable[[], None],
        abandon: Callable[[], Awaitable[None]],
        *,
        next_seq: int = 0,
        first_s: float | None = None,
        resumable: bool = False,
        probe: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._deadline_ms, self._idle_s, self._forget, self._abandon = deadline_ms, idle_s, forget, abandon
        self._patience_s = first_s or idle_s
        self._resumable, self._probe = resumable, probe
        self._sender = ""
        self._lost = False
        self._events: deque[Any] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._stood_still = False
        self._next_seq = next_seq
        self._closed = self._sender_ended = False

    @property
    def sender_ended(self) -> bool:
        """Whether the sender has said its last word; if not, a Failure at the end is of this stream's own making."""
        return self._sender_ended

    def push(self, event: Any) -> None:
        """Takes the next event from the wire."""
        self._sender_ended |= isinstance(event, (Done, Failure))
        self._take(event)

    def fail(self, failure: Failure) -> None:
        """Ends the stream with a failure that its sender does not know of, and will be told to stop for."""
        self._take(failure)

    def lose(self, detail: str) -> None:
        """Ends the stream because its sender is known to be lost."""
        self._lost = True
        self._take(Failure(code="incomplete", detail=detail, retry_after_ms=1000))

    def _take(self, event: Any) -> None:
        self._patience_s = self._idle_s
        self._events.append(event)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self._closed:
            raise StopAsyncIteration
        event = self._checked(await self._event())
        if isinstance(event, (Done, Failure)):
            await self.aclose()
        return event

    async def _event(self) -> Any:
        loop = asyncio.get_running_loop()
        since_s, allowed_s = loop.time(), self._patience_s
        self._stood_still, anew = False, False
        probe = self._probe if self._sender else None
        while not self._events:
            left_s = (self._deadline_ms - now_ms()) / 1000
            silent_s = loop.time() - since_s
            if left_s <= 0:
                return Failure(code="deadline", detail="the deadline passed", tokens_sent=self._next_seq)
            if silent_s >= allowed_s:
                if anew or not self._stood_still:
                    return self._silence(allowed_s)
                since_s, silent_s, anew = loop.time(), 0.0, True
            if probe is not None and silent_s >= PROBE_S:
                await probe(self._sender)
                probe = None
                continue
            await self._wait(min(left_s, (PROBE_S if probe is not None else allowed_s) - silent_s))
        return self._events.popleft()

    def _silence(self, allowed_s: float) -> Failure:
        self._lost = True
        silence = f"no sign of life for {allowed_s:g} s"
        return Failure(code="incomplete", detail=silence, retry_after_ms=1000, tokens_sent=self._next_seq)

    async def _wait(self, most_s: float) -> None:
        """Waits for an event, `most_s` seconds or a little less."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + most_s
        if self._timer is not None and self._due_s > due_s:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer, self._due_s = loop.call_later(most_s, self._on_timer), due_s
        self._waiter = loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _on_timer(self) -> None:
        """One timer serves all events, which are many: when it was too early, whoever waits sets it anew.

        The moment is kept beside it: what uvloop returns for less than half a millisecond has no `when`."""
        self._stood_still |= asyncio.get_running_loop().time() - self._due_s > min(LATE_S, self._idle_s / 4)
        self._timer = None
        self._wake()

    def _checked(self, event: Any) -> Any:
        if isinstance(event, Accepted):
            self._sender = event.replica
        elif isinstance(event, Chunk):
            if event.seq != self._next_seq:
                return self._incomplete()
            self._next_seq += 1
        elif isinstance(event, Done) and event.chunks != self._next_seq:
            return self._incomplete()
        elif isinstance(event, Failure) and event.tokens_sent != self._next_seq:
            return msgspec.structs.replace(event, tokens_sent=self._next_seq)
        return event

    def _incomplete(self) -> Failure:
        self._lost = True
        detail = f"chunk {self._next_seq} was lost on the way"
        return Failure(code="incomplete", detail=detail, retry_after_ms=1000, tokens_sent=self._next_seq)

    @property
    def lost(self) -> bool:
        """Whether it ended because its sender was silent or a chunk never came: the sender may go on nevertheless."""
        return self._lost

    async def aclose(self) -> None:
        """Leaves the stream; a sender that has not ended is told to stop."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._forget()
        if not self._sender_ended and not (self._lost and self._resumable):
            await self._abandon()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
