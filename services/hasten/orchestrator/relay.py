"""Puts what another replica generates on a flight of ours, and tells a leader that is lost from one that is slow.

NATS says at once that nobody hears the subject of a process that has died, but not that a stream from it will never go
on. So after a silence the leader is asked anew: it answers, and what was heard already is left out, or it is lost.
"""

from typing import Literal

from msgspec import structs

from hasten.bus import Bus
from hasten.deadline import TENANT
from hasten.freshness import Freshness
from hasten.messages.chat import Chunk, Done, Note
from hasten.messages.failure import Failed, Failure
from hasten.messages.follow import FOLLOW, Basis, Follow
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.lease import Lease
from hasten.stream import Stream

SILENCE_S = 0.3
"""A leader pings more often than this (FOLLOW.ping_s)."""
Outcome = Literal["ended", "gone", "lost", "stale", "apart"]
"""What became of following: the flight has ended; the leader has no such flight (any more); it is lost; what it read
has changed since; or it says something else than was shown already, or has no place for a follower."""
SHARED = Note(kind="cache", data={"hit": "shared"})
"""Tells a reader that the answer is another's as well."""
_REFUSED: dict[str, Outcome] = {"not_found": "gone", "overloaded": "apart", "too_large": "apart"}
_SHUT = frozenset({"draining", "disconnected", "cancelled"})
"""How a leader ends that is closed before its flights have ended."""


class Relay:
    """Follows one lease after another for one flight, so that its readers get every piece once."""

    def __init__(self, bus: Bus, flight: Flight, freshness: Freshness) -> None:
        self._bus, self._flight, self._freshness = bus, flight, freshness
        self._revision = self._taken = self._asked = 0
        self._until_ms = 0.0
        self._owed = ""
        self._told = False

    async def follow(self, lease: Lease) -> Outcome:
        """Returns when the flight has ended, or why this leader cannot be followed any further."""
        self._flight.followed = True
        if lease.revision != self._revision:
            self._revision, self._taken = lease.revision, 0
            shown = self._flight.said
            if any(chunk.reasoning or chunk.tool_calls or chunk.logprobs for chunk in shown):
                return "apart"
            self._owed = "".join(chunk.text for chunk in shown)
        while True:
            with self._flight.timeline.begin("follow") as mark:
                answered, outcome = await self._ask(lease, mark.headers or {})
                mark.end("ran" if outcome == "ended" else "failed", outcome or "silent")
            if outcome is not None:
                return outcome
            if not answered:
                return "lost"

    async def _ask(self, lease: Lease, headers: dict[str, str]) -> tuple[bool, Outcome | None]:
        """Whether the leader answered, and the outcome unless it is worth to ask it again."""
        self._asked += 1
        self._until_ms = self._flight.deadline_ms
        try:
            stream = await self._bus.stream(
                FOLLOW,
                Follow(key=lease.key),
                replica=lease.word.leader,
                headers={TENANT: self._flight.tenant, **headers},
                deadline_ms=self._until_ms,
                request_id=f"{self._flight.id}-f{self._asked}",
                idle_s=SILENCE_S,
            )
        except Failed:
            return False, "lost"
        async with stream:
            return await self._read(stream)

    async def _read(self, stream: Stream) -> tuple[bool, Outcome | None]:
        answered, heard = False, self._taken
        async for event in stream:
            if isinstance(event, Basis):
                if not self._taken and not self._fresh(event):
                    return True, "stale"
                answered = True
                self._adopt(event)
            elif isinstance(event, Done):
                return True, self._end(event)
            elif isinstance(event, Failure):
                return answered, self._verdict(event, answered, stream.sender_ended)
            elif isinstance(event, (Note, Chunk)) and heard:
                heard -= 1
            elif isinstance(event, (Note, Chunk)):
                self._taken += 1
                if not self._take(event):
                    return True, "apart"
        return answered, None

    def _fresh(self, basis: Basis) -> bool:
        return self._freshness.fresh(self._flight.tenant, basis.tags, basis.read_seq)

    def _adopt(self, basis: Basis) -> None:
        flight = self._flight
        flight.tags, flight.read_seq = basis.tags, basis.read_seq
        flight.model, flight.prompt, flight.sources = basis.model, basis.messages, basis.sources
        if not self._told:
            self._told = True
            flight.say(SHARED)

    def _take(self, event: Note | Chunk) -> bool:
        """Passes on what the readers have not been shown; False when it differs from what they have."""
        if not self._owed:
            if isinstance(event, Chunk):
                self._flight.say(structs.replace(event, seq=self._flight.chunks))
            else:
                self._flight.say(event)
            return True
        if isinstance(event, Note):
            return True
        size = min(len(self._owed), len(event.text))
        if self._owed[:size] != event.text[:size] or event.reasoning or event.tool_calls:
            return False
        self._owed = self._owed[size:]
        if event.text[size:]:
            self._flight.text(event.text[size:])
        return True

    def _end(self, done: Done) -> Outcome:
        if self._owed:
            return "apart"
        cache = "shared" if done.cache == "miss" else done.cache
        self._flight.say(structs.replace(done, cache=cache, chunks=self._flight.chunks))
        return "ended"

    def _verdict(self, failure: Failure, answered: bool, said_so: bool) -> Outcome | None:
        if failure.code == "deadline":
            if self._until_ms < self._flight.deadline_ms:
                return None
        elif not said_so:
            return None
        elif not answered:
            return _REFUSED.get(failure.code, "lost")
        elif failure.code in _SHUT:
            return "lost"
        self._flight.say(structs.replace(failure, tokens_sent=self._flight.chunks))
        return "ended"
