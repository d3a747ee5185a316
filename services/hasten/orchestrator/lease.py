"""Which replica generates: a key in a JetStream bucket, whose value names the leader and whose revision is the fence.

A lease is not renewed: whoever wants to follow asks its leader, and takes the key in its place when that is silent.
What the server's clock deletes is garbage only.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Coroutine

import msgspec
import nats.errors
from nats.js.api import StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.telemetry import counter, logger

log = logger("orchestrator")
BUCKET = "hasten_flights"
KEPT_S = 15.0
"""How long the end of a flight that was stored is remembered: longer than any replica of the cache, or any
orchestrator, keeps an older answer in memory by default."""
CLAIM_S = 0.5
"""A bucket that has not answered by then is done without."""
REST_S = 1.0
"""After a failure the bucket is left alone for so long, so that no request waits for it."""
_WRONG_REVISION = frozenset({10071, 10164})
_leases = counter("leases_total", "Generations by what became of their lease", "outcome")


class Word(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of a key: its `leader` since `since_ms`, or, without a leader, that a flight of then has ended.

    `stored` says that its answer went to the cache, `quiet` that the flight makes an answer anew which is still served.
    """

    leader: str = ""
    since_ms: int = 0
    stored: bool = False
    quiet: bool = False


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A key of the bucket as it was at `revision`. `held` is ours to generate under; otherwise `word.leader` does.

    `before` is the word that a held one replaced.
    """

    key: str
    revision: int
    word: Word
    held: bool = False
    before: Word | None = None


class _Conflict(Exception):
    """The key has another revision than was expected."""


class Leases:
    """The bucket as one replica sees it. Without a bucket nothing fails: a claim is None, and a counter says so."""

    def __init__(self, bus: Bus, replica: str, longest_s: float, claim_s: float = CLAIM_S) -> None:
        self._bus, self.replica, self._longest_s = bus, replica, longest_s
        self._claim_s, self._resting_until = claim_s, float("-inf")
        self._tasks: set[asyncio.Task[None]] = set()
        self.counts: dict[str, int] = {}

    async def start(self) -> None:
        """Makes the bucket if there is none; without one every claim is None until it can be made."""
        stream = StreamConfig(
            name=f"KV_{BUCKET}",
            subjects=[f"$KV.{BUCKET}.>"],
            storage=StorageType.MEMORY,
            max_msgs_per_subject=1,
            allow_direct=True,
            allow_msg_ttl=True,
            allow_rollup_hdrs=True,
        )
        try:
            async with asyncio.timeout(self._claim_s * 4):
                try:
                    await self._bus.js.stream_info(f"KV_{BUCKET}")
                except NotFoundError:
                    await self._bus.js.add_stream(stream)
        except (nats.errors.Error, TimeoutError) as error:
            log.warning("no generation is shared between replicas now (the bucket: %s)", type(error).__name__)

    async def claim(self, key: str, *, quiet: bool = False) -> Lease | None:
        """Makes this replica the leader of a key, or returns the lease of the one that is; None without a bucket."""
        return await self._tried(self._claim(key, 0, quiet))

    async def take(self, lease: Lease) -> Lease | None:
        """Takes a lease from a leader that is lost, unless another replica was quicker: then its lease is returned."""
        taken = await self._tried(self._claim(lease.key, lease.revision))
        if taken is not None and taken.held:
            self.count("taken")
        return taken

    async def look(self, key: str) -> Lease | None:
        """A key as it is, with revision 0 when it is free; None without a bucket."""
        return await self._tried(self._look(key))

    async def _look(self, key: str) -> Lease:
        revision, word = await self._read(key)
        return Lease(key=key, revision=revision, word=word)

    async def _claim(self, key: str, revision: int, quiet: bool = False) -> Lease:
        before: Word | None = None
        while True:
            word = Word(leader=self.replica, since_ms=int(now_ms()), quiet=quiet)
            with contextlib.suppress(_Conflict):
                made = await self._write(key, word, revision, self._longest_s)
                return Lease(key=key, revision=made, word=word, held=True, before=before)
            revision, found = await self._read(key)
            if found.leader:
                return Lease(key=key, revision=revision, word=found)
            before = found if revision else None

    async def _tried(self, work: Coroutine[None, None, Lease]) -> Lease | None:
        if time.monotonic() < self._resting_until:
            work.close()
            self.count("unavailable")
            return None
        try:
            async with asyncio.timeout(self._claim_s):
                return await work
        except (nats.errors.Error, TimeoutError, msgspec.DecodeError) as error:
            self._rest(type(error).__name__)
            self.count("unavailable")
            return None

    def _rest(self, why: str) -> None:
        """Leaves the bucket alone for a while and has it made anew: once for all who have failed together."""
        rested, self._resting_until = time.monotonic() >= self._resting_until, time.monotonic() + REST_S
        if rested:
            log.warning("generations are not shared between replicas (%s)", why)
            self._begin(self.start())

    async def _write(self, key: str, word: Word, revision: int, lives_s: float) -> int:
        """Replaces exactly `revision` (0: nothing) and returns the new one; raises _Conflict."""
        headers = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        try:
            stored = await self._bus.js.publish(
                _subject(key), msgspec.json.encode(word), headers=headers, msg_ttl=max(1, math.ceil(lives_s))
            )
        except APIError as error:
            if error.err_code in _WRONG_REVISION:
                raise _Conflict from None
            raise
        return stored.seq

    async def _read(self, key: str) -> tuple[int, Word]:
        """The revision of a key and its word; (0, an empty word) when there is none."""
        try:
            found = await self._bus.js.get_last_msg(f"KV_{BUCKET}", _subject(key), direct=True)
        except NotFoundError:
            return 0, Word()
        return found.seq or 0, msgspec.json.decode(found.data or b"{}", type=Word)

    def release(self, lease: Lease, *, kept: bool, stored: bool) -> None:
        """Ends a held lease in the background, unless it has been taken; `kept` lets others know of it for KEPT_S."""
        self._begin(self._release(lease, Word(since_ms=lease.word.since_ms, stored=stored), KEPT_S if kept else 1.0))

    async def _release(self, lease: Lease, word: Word, lives_s: float) -> None:
        with contextlib.suppress(_Conflict, nats.errors.Error, TimeoutError):
            async with asyncio.timeout(self._claim_s * 4):
                await self._write(lease.key, word, lease.revision, lives_s)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def count(self, outcome: str) -> None:
        """Counts what became of a lease: led, followed, taken or unavailable."""
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        _leases.labels(outcome).inc()

    async def close(self) -> None:
        """Returns when what was released is free."""
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)


def _subject(key: str) -> str:
    return f"$KV.{BUCKET}.{key}"
