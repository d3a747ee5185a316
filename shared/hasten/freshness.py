"""Tells whether an answer may still be served: the last change of each tag, and a lease that runs out in silence."""

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import cache

from hasten.bus import Bus
from hasten.cancellation import cancelled
from hasten.changes import ChangeReader, Eviction, Reading
from hasten.changes.causes import WHOLE
from hasten.changes.settings import Changes
from hasten.dead_letters import DeadLetters
from hasten.journal import POLL_S, Entry, Reader, ensure_stream, stream_state
from hasten.messages.change import STREAM
from hasten.messages.failure import Failed
from hasten.replicas import LEASE_S, Replica
from hasten.tag_table import MAX_TAGS, TagTable
from hasten.telemetry import counter, gauge, logger

log = logger("freshness")
_heard = counter("change_events_total", "Messages of HASTEN_CHANGES, by shape and what they evicted", "shape", "evicts")
_behind = gauge("changes_behind_seconds", "How long ago all changes were last known to have been heard", "kind")
REPLAY = 200_000
"""How many of the stream's last messages a starting replica reads; what was read before them is not served."""
RETRY_S = 1.0
OnEviction = Callable[[Entry, Eviction], None]


class Freshness:
    """A replica's view of HASTEN_CHANGES: the tag table, kept up by an ordered reader, and its serving lease.

    It is registered with every barrier (`hasten.replicas`) from before its first answer until `close`; `kind` is part
    of its name there. `epoch` names the stream: an answer read in another one is not comparable. When the stream is
    gone or replaced, the replica begins anew with another, and nothing read before that is fresh.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        changes: Changes | None = None,
        lease_s: float = LEASE_S,
        max_tags: int = MAX_TAGS,
        kind: str = "reader",
    ) -> None:
        self._bus, self._changes, self._max_tags = bus, changes or Changes(), max_tags
        self._events = ChangeReader(self._changes.rules)
        self._letters = DeadLetters(bus)
        self._lease_s = min(lease_s, LEASE_S)
        self.replica = Replica(bus, kind)
        self._on_eviction: list[OnEviction] = []
        self._closed = False
        self._seen = 0
        self._task: asyncio.Task[None] | None = None
        self.table = TagTable(max_tags)
        self.reader: Reader = Reader(bus, self._apply)
        self._shown = _behind.labels(kind)

    async def start(self) -> None:
        """Makes the stream if need be and returns when its recent part has been read; raises Failed(unavailable)."""
        await ensure_stream(self._bus, self._changes.sources)
        await self.replica.start()
        await self._begin()
        self._shown.set_function(lambda: time.monotonic() - self.reader.confirmed_at)
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def _begin(self, former: int = 0) -> None:
        """Reads a stream whose sequences are all after `former`."""
        state = await stream_state(self._bus)
        if state.first_seq <= former:
            raise Failed("unavailable", f"{STREAM} was replaced by a stream that counts from {state.first_seq} again")
        start = max(state.first_seq, state.last_seq - REPLAY + 1, 1)
        self._seen = start - 1
        self.table = TagTable(self._max_tags, floor=start - 1)
        self.reader = Reader(self._bus, self._apply, start=start)
        self.reader.on_progress(self._progressed)
        await self.reader.start()

    async def _follow(self) -> None:
        """Begins anew whenever the stream has been lost."""
        while not cancelled():
            await asyncio.sleep(POLL_S)
            if self.reader.lost:
                await self._renew()

    async def _renew(self) -> None:
        """Makes the stream if need be and reads it. One that others made and that counts from 1 again is refused:
        answers that were read from the former one and are stored only now would look new."""
        former = max(1, self._seen)  # one that counts from 1 is refused though of the former one nothing was seen yet
        log.warning("%s is gone: nothing that was read before is served", STREAM)
        while not cancelled():
            await self.reader.close()
            try:
                await ensure_stream(self._bus, self._changes.sources, anew=True)
                return await self._begin(former)
            except Failed as failed:
                log.error("no hits: %s; delete it, and it is made as it has to be", failed.failure.detail)
            await asyncio.sleep(RETRY_S)

    def on_eviction(self, call: OnEviction) -> None:
        """Calls back with (entry, eviction) of each change after it is in the table; `call` must not wait."""
        self._on_eviction.append(call)

    def _apply(self, entry: Entry) -> None:
        """Takes in a message. One that fails before it is in the table is not seen, and so distrusted with all that
        was read before it."""
        self._skip_to(entry.sequence - 1)
        reading = self._events.read(entry.subject, entry.headers, entry.data)
        for eviction in reading.evictions:
            for tag in eviction.tags:
                self.table.change(eviction.tenant, tag, entry.sequence)
        self._seen = max(self._seen, entry.sequence)
        _count(reading.event.shape, _extent(reading)).inc()
        if reading.event.fault:
            self._letters.post(entry.sequence, entry.subject, reading.event.fault, len(entry.data))
        for eviction in reading.evictions:
            for call in self._on_eviction:
                call(entry, eviction)

    def _skip_to(self, sequence: int) -> None:
        """Distrusts everything read before changes that were deleted from the stream before they came here."""
        if sequence > self._seen:
            self._seen = sequence
            self.table.floor = max(self.table.floor, sequence)

    def _progressed(self) -> None:
        self._skip_to(self.reader.applied)
        self.replica.announce(self.reader.applied)

    @property
    def applied(self) -> int:
        """The sequence up to which changes are in the table."""
        return self.reader.applied

    @property
    def epoch(self) -> str:
        """When the stream was made, which tells it from any other that may have had its name."""
        return self.reader.created.isoformat() if self.reader.created else ""

    @property
    def leased(self) -> bool:
        """Whether this replica knew the whole stream less than a lease ago; if not, it serves nothing from cache."""
        known = time.monotonic() - self.reader.confirmed_at <= self._lease_s
        return known and self.replica.registered and not self._closed

    def fresh(self, tenant: str, tags: Iterable[str], read_seq: int) -> bool:
        """Whether an answer may be served: the lease holds and none of its tags changed after `read_seq`."""
        return self.leased and self.table.fresh(tenant, tags, read_seq)

    async def close(self) -> None:
        """Serves nothing any more, stops reading and leaves the registry."""
        self._closed = True
        self._shown.set_function(lambda: 0.0)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.reader.close()
        await self._letters.close()
        await self.replica.close()


_count = cache(_heard.labels)
"""Finding a counter by its labels costs as much as reading a small event."""


def _extent(reading: Reading) -> str:
    """How much a message evicts, for the count."""
    if reading.repeated:
        return "nothing again"
    if not reading.evictions:
        return "nothing"
    return "a table" if reading.event.fault or reading.event.op in WHOLE else "rows"
