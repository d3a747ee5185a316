"""Who serves answers from a view of HASTEN_CHANGES, and how to wait until none of them serves an older view.

A replica is in a KV bucket before it serves its first answer and takes itself for unregistered long before the bucket
forgets it; so whoever reads the bucket after a change was stored finds every replica that could serve without it.
A replica that is silent nevertheless, because it died or was cut off, has lost its lease when the wait ends.
"""

import asyncio
import contextlib
import time
import zlib

import nats.errors
from nats.js.api import StorageType

from hasten.bus import Bus
from hasten.cancellation import cancelled
from hasten.messages.change import APPLIED, REPLICAS, Applied
from hasten.messages.failure import Failed
from hasten.telemetry import logger
from hasten.topics import random_id

log = logger("replicas")
LEASE_S = 1.0
"""The longest that any replica serves without having heard the whole stream."""
MARGIN_S = 0.1
"""Added to the lease by whoever waits for its end: clocks differ a little in speed."""
TTL_S = 15.0
REFRESH_S = 4.0
TRUSTED_S = 10.0
"""How long a registration is relied on: less than the bucket keeps it."""
SILENT_S = 2.0
"""After which silence a replica is no longer expected to do its part of the work: it speaks four times a second."""
PAUSE_S = 0.005
"""The least time between two announcements, so that a flood of changes is not answered with a flood of words."""


_ALL = 2**53
"""What a replica has applied that serves nothing any more."""


def _subject(replica: str) -> str:
    return f"$KV.{REPLICAS}.{replica}"


class Replica:
    """One holder of a view of the changes: registered for as long as it serves, and saying how far it has applied."""

    def __init__(self, bus: Bus, kind: str = "reader") -> None:
        self.id = f"{kind}-{random_id()}"
        self._bus = bus
        self._registered_at = float("-inf")
        self._sequence = 0
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Makes the bucket if need be and registers; raises Failed(unavailable)."""
        await self._make_bucket()
        await self._register()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._refresh()), loop.create_task(self._speak())]

    async def _make_bucket(self) -> None:
        try:
            await self._bus.js.create_key_value(bucket=REPLICAS, ttl=TTL_S, storage=StorageType.FILE)
        except (nats.errors.Error, TimeoutError) as error:
            raise Failed("unavailable", f"the bucket {REPLICAS} cannot be made ({type(error).__name__})") from None

    @property
    def registered(self) -> bool:
        """Whether every barrier is sure to know of this replica."""
        return time.monotonic() - self._registered_at < TRUSTED_S

    def announce(self, sequence: int) -> None:
        """Says soon that everything up to `sequence` is heeded; said again for the same one, since words get lost."""
        self._sequence = max(sequence, self._sequence)
        self._news.set()

    async def _register(self) -> None:
        asked_at = time.monotonic()
        await self._bus.store_raw(_subject(self.id), b"")
        self._registered_at = asked_at

    async def _refresh(self) -> None:
        wait_s = REFRESH_S
        while not cancelled():
            await asyncio.sleep(wait_s)
            try:
                await self._register()
                wait_s = REFRESH_S
            except Failed:
                wait_s = REFRESH_S / 8
                with contextlib.suppress(Failed):
                    await self._make_bucket()

    async def _speak(self) -> None:
        while not cancelled():
            await self._news.wait()
            self._news.clear()
            if self._bus.connected:
                with contextlib.suppress(nats.errors.Error):
                    await self._bus.publish(APPLIED, Applied(sequence=self._sequence), replica=self.id)
            await asyncio.sleep(PAUSE_S)

    async def close(self) -> None:
        """Leaves the bucket, after the last answer was served, and says so, so that nobody waits for this replica."""
        self._registered_at = float("-inf")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._tasks and self._bus.connected:
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                await self._bus.publish(APPLIED, Applied(sequence=_ALL), replica=self.id)
                await self._bus.js.purge_stream(f"KV_{REPLICAS}", subject=_subject(self.id))
        self._tasks = []


class Peers:
    """The replicas of one kind that have spoken lately, and whose turn it is among them; times are monotonic."""

    def __init__(self, own: str) -> None:
        self._own, self._kind = own, own.partition("-")[0]
        self._heard_s: dict[str, float] = {}

    def heard(self, replica: str, now_s: float) -> None:
        """Takes in that a replica lives, if it is of this kind."""
        if replica.startswith(f"{self._kind}-"):
            self._heard_s[replica] = now_s

    def place(self, work: str, now_s: float) -> int:
        """The own place in line for some work: 0 comes first. All who hear of the same replicas agree."""
        self._heard_s = {name: at_s for name, at_s in self._heard_s.items() if now_s - at_s < SILENT_S}
        live = sorted({self._own, *self._heard_s})
        return (live.index(self._own) + zlib.crc32(work.encode())) % len(live) if len(live) > 1 else 0


class Barrier:
    """Waits until every replica heeds a change, or cannot serve any more.

    `heard` takes in the announcements: let a service listen to APPLIED with it before the first `passed`.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._applied: dict[str, int] = {}
        self._heard_s: dict[str, float] = {}
        self._news = asyncio.Event()

    def heard(self, applied: Applied, tokens: dict[str, str]) -> None:
        """Takes in how far a replica is."""
        replica = tokens["replica"]
        self._applied[replica] = max(applied.sequence, self._applied.get(replica, 0))
        self._heard_s[replica] = time.monotonic()
        self._news.set()
        self._news = asyncio.Event()

    async def passed(self, sequence: int, stored_at: float) -> None:
        """Returns when no replica serves without the change `sequence`, whose store was acknowledged at `stored_at`
        (monotonic seconds): at once when all have applied it, and at most one lease after that."""
        until = stored_at + LEASE_S + MARGIN_S
        members = await self._members(until)
        while time.monotonic() < until and (members is None or self._behind(members, sequence)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(until - time.monotonic()):
                    await self._news.wait()

    def _behind(self, members: set[str], sequence: int) -> bool:
        return any(self._applied.get(member, 0) < sequence for member in members)

    async def _members(self, until: float) -> set[str] | None:
        """Who is registered now, or has spoken within a lease: a registry that was emptied gets them back only after
        seconds. None when it cannot be told."""
        try:
            async with asyncio.timeout(until - time.monotonic()):
                found = await members(self._bus)
        except (nats.errors.Error, TimeoutError) as error:
            log.warning("the replicas cannot be told (%s): waiting for a whole lease", type(error).__name__)
            return None
        lately = time.monotonic() - LEASE_S - MARGIN_S
        self._heard_s = {replica: at_s for replica, at_s in self._heard_s.items() if at_s > lately}
        found |= self._heard_s.keys()
        self._applied = {replica: at for replica, at in self._applied.items() if replica in found}
        return found


async def members(bus: Bus) -> set[str]:
    """Who is registered now; raises nats.errors.Error or TimeoutError."""
    info = await bus.js.stream_info(f"KV_{REPLICAS}", subjects_filter=_subject(">"))
    return {subject.rpartition(".")[2] for subject in info.state.subjects or {}}
