"""Tells whether an answer may still be served: the last change of each tag, and a lease that runs out in silence."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import cache

from hasten.bus import Bus
from hasten.changes import ALL, EVERYBODY, ChangeReader, Eviction, Reading, expanded
from hasten.changes.causes import WHOLE
from hasten.changes.settings import Changes
from hasten.dead_letters import DeadLetters
from hasten.journal import Entry, Reader, ensure_stream, stream_state
from hasten.replicas import LEASE_S, Replica
from hasten.telemetry import counter

_heard = counter("change_events_total", "Messages of HASTEN_CHANGES, by shape and what they evicted", "shape", "evicts")
MAX_TAGS = 200_000
REPLAY = 200_000
"""How many of the stream's last messages a starting replica reads; what was read before them is not served."""
OnEviction = Callable[[int, Eviction], None]


class TagTable:
    """The last sequence at which each (tenant, tag) changed, bounded; pure.

    What has been forgotten to stay within `limit` raises `floor`: an answer read before the floor is not fresh,
    because a change of its tags may have been forgotten. Changes for all tenants are under the tenant `*`. `newest`
    is the last change of all.
    """

    def __init__(self, limit: int = MAX_TAGS, floor: int = 0) -> None:
        self._limit, self.floor = limit, floor
        self.newest = 0
        self._last: OrderedDict[tuple[str, str], int] = OrderedDict()

    def change(self, tenant: str, tag: str, sequence: int) -> None:
        """Records a change; a lower sequence than the known one changes nothing."""
        key = (tenant, tag)
        self.newest = max(sequence, self.newest)
        self._last[key] = max(sequence, self._last.pop(key, 0))
        while len(self._last) > self._limit:
            _, forgotten = self._last.popitem(last=False)
            self.floor = max(self.floor, forgotten)

    def last(self, tenant: str, tag: str) -> int:
        """The last known change of a tag that this tenant must heed, 0 if none."""
        return max(self._last.get((tenant, tag), 0), self._last.get((EVERYBODY, tag), 0))

    def fresh(self, tenant: str, tags: Iterable[str], read_seq: int) -> bool:
        """Whether nothing that an answer with these tags depends on has changed since it was read at `read_seq`.

        A tag is also looked up one level above itself: see `hasten.changes.expanded`.
        """
        if read_seq < self.floor:
            return False
        if read_seq >= self.newest:
            return True
        return all(self.last(tenant, tag) <= read_seq for tag in (*expanded(tags), ALL))


class Freshness:
    """A replica's view of HASTEN_CHANGES: the tag table, kept up by an ordered reader, and its serving lease.

    It is registered with every barrier (`hasten.replicas`) from before its first answer until `close`. `epoch` names
    the stream: an answer read in another one, whose sequences mean something else, is not comparable.
    """

    def __init__(
        self, bus: Bus, *, changes: Changes | None = None, lease_s: float = LEASE_S, max_tags: int = MAX_TAGS
    ) -> None:
        self._bus, self._changes, self._max_tags = bus, changes or Changes(), max_tags
        self._events = ChangeReader(self._changes.rules)
        self._letters = DeadLetters(bus)
        self._lease_s = min(lease_s, LEASE_S)
        self._replica = Replica(bus)
        self._on_eviction: list[OnEviction] = []
        self._closed = False
        self._seen = 0
        self.table = TagTable(max_tags)
        self.reader: Reader = Reader(bus, self._apply)

    async def start(self) -> None:
        """Makes the stream if need be and returns when its recent part has been read; raises Failed(unavailable)."""
        await ensure_stream(self._bus, self._changes.sources)
        await self._replica.start()
        state = await stream_state(self._bus)
        start = max(state.first_seq, state.last_seq - REPLAY + 1, 1)
        self._seen = start - 1
        self.table = TagTable(self._max_tags, floor=start - 1)
        self.reader = Reader(self._bus, self._apply, start=start)
        self.reader.on_progress(self._progressed)
        await self.reader.start()

    def on_eviction(self, call: OnEviction) -> None:
        """Calls back with (sequence, eviction) of each change after it is in the table; `call` must not wait."""
        self._on_eviction.append(call)

    def _apply(self, entry: Entry) -> None:
        self._skip_to(entry.sequence - 1)
        self._seen = max(self._seen, entry.sequence)
        reading = self._events.read(entry.subject, entry.headers, entry.data)
        _count(reading.event.shape, _extent(reading)).inc()
        if reading.event.fault:
            self._letters.post(entry.sequence, entry.subject, reading.event.fault, len(entry.data))
        for eviction in reading.evictions:
            for tag in eviction.tags:
                self.table.change(eviction.tenant, tag, entry.sequence)
            for call in self._on_eviction:
                call(entry.sequence, eviction)

    def _skip_to(self, sequence: int) -> None:
        """Distrusts everything read before changes that were deleted from the stream before they came here."""
        if sequence > self._seen:
            self._seen = sequence
            self.table.floor = max(self.table.floor, sequence)

    def _progressed(self) -> None:
        self._skip_to(self.reader.applied)
        self._replica.announce(self.reader.applied)

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
        return known and self._replica.registered and not self._closed

    def fresh(self, tenant: str, tags: Iterable[str], read_seq: int) -> bool:
        """Whether an answer may be served: the lease holds and none of its tags changed after `read_seq`."""
        return self.leased and self.table.fresh(tenant, tags, read_seq)

    async def close(self) -> None:
        """Serves nothing any more, stops reading and leaves the registry."""
        self._closed = True
        await self.reader.close()
        await self._letters.close()
        await self._replica.close()


_count = cache(_heard.labels)
"""Finding a counter by its labels costs as much as reading a small event."""


def _extent(reading: Reading) -> str:
    """How much a message evicts, for the count."""
    if reading.repeated:
        return "nothing again"
    if not reading.evictions:
        return "nothing"
    return "a table" if reading.event.fault or reading.event.op in WHOLE else "rows"
