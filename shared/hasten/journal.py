"""HASTEN_CHANGES: the one stream that orders all that can make an answer stale, made once and read in order."""

import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StorageType, StreamConfig, StreamInfo
from nats.js.errors import APIError, NotFoundError

from hasten.bus import Bus
from hasten.cancellation import cancelled
from hasten.messages.change import REPLICAS, STREAM
from hasten.messages.failure import Failed
from hasten.subjects import widest
from hasten.telemetry import logger

log = logger("journal")
OWN_SUBJECTS = ("hasten.v1.change.>", "hasten.v1.document.>")
POLL_S = 0.25
STALLED_S = 1.0
MAX_BYTES = 4 * 1024**3
WINDOW = 64
"""Messages asked for and not yet here. They are what a request of this process has to wait behind: about 1 ms. A server
that may push as it likes puts a whole burst in front of it."""
CLAIMS = 16


@contextlib.contextmanager
def _or_unavailable(what: str) -> Iterator[None]:
    try:
        yield
    except (nats.errors.Error, TimeoutError) as error:
        reason = getattr(error, "description", None) or type(error).__name__
        raise Failed("unavailable", f"the stream {STREAM} cannot be {what}: {reason}") from None


async def ensure_stream(
    bus: Bus, sources: list[str] | None = None, *, max_bytes: int = MAX_BYTES, anew: bool = False
) -> None:
    """Creates HASTEN_CHANGES, or adds the subjects it lacks; every process may call it at once.

    `sources` are further subjects to capture as they are (`shop.>`, where Debezium Server publishes). `anew` says that
    the caller has read a stream of this name before. Raises Failed(unavailable) when JetStream cannot have it, with the
    server's reason.
    """
    wanted = widest([*OWN_SUBJECTS, *(sources or [])])
    with _or_unavailable("made"):
        try:
            info = await bus.js.stream_info(STREAM)
        except NotFoundError:
            config = StreamConfig(
                name=STREAM,
                subjects=wanted,
                storage=StorageType.FILE,
                max_bytes=max_bytes,
                allow_direct=True,
                first_seq=time.time_ns() // 1000 if anew or await _read_before(bus) else 1,
            )
            info = await _made(bus, config)
        have = list(info.config.subjects or [])
        if set(subjects := widest([*have, *wanted])) != set(have):
            info.config.subjects = subjects
            await bus.js.update_stream(info.config)


async def _made(bus: Bus, config: StreamConfig) -> StreamInfo:
    """The stream, which another process may have made meanwhile; raises what the server says against it."""
    refused: APIError | None = None
    try:
        await bus.js.add_stream(config)
    except APIError as error:
        refused = error
    try:
        info: StreamInfo = await bus.js.stream_info(STREAM)
    except NotFoundError as error:
        raise refused or error from None
    return info


async def _read_before(bus: Bus) -> bool:
    """Whether replicas have read another stream of this name. A new one then begins to count at the microseconds of
    now, which that one has not reached, and not at 1: what was read from it is known to be too old."""
    try:
        await bus.js.stream_info(f"KV_{REPLICAS}")
    except NotFoundError:
        return False
    return True


class Entry:
    """One message of the stream: `sequence`, `subject`, `headers` and `data`."""

    __slots__ = ("data", "headers", "sequence", "subject")

    def __init__(self, sequence: int, subject: str, headers: dict[str, str], data: bytes) -> None:
        self.sequence, self.subject, self.headers, self.data = sequence, subject, headers, data


class Reader:
    """Reads the stream from `start` on, every message once and in order, for as long as it is open.

    The consumer is ephemeral and made anew from the last applied message whenever a sequence is missing, messages stop
    while the stream has more, or the server has forgotten it. `apply` is called for each message and must not wait.
    `confirmed_at` is the monotonic time up to which everything in the stream is known to have been applied: it is
    taken before the stream is asked for its end, so it holds whatever the network did meanwhile. `created` is when the
    stream was made. When it is gone, or another is in its place, the reader is `lost`: it confirms nothing any more.
    """

    def __init__(self, bus: Bus, apply: Callable[[Entry], None], *, start: int = 1) -> None:
        self._bus, self._apply = bus, apply
        self.applied = start - 1
        self.confirmed_at = float("-inf")
        self.created: datetime | None = None
        self.lost = False
        self.resets = 0
        self._next_consumer_seq = 1
        self._owed = 0
        self._progress_at = 0.0
        self._subscription: Subscription | None = None
        self._inbox = self._consumer = ""
        self._connections = 0
        self._task: asyncio.Task[None] | None = None
        self._end = 0
        self._claims = deque[tuple[int, float]](maxlen=CLAIMS)
        self._on_progress: list[Callable[[], None]] = []

    def on_progress(self, call: Callable[[], None]) -> None:
        """Calls back each time `confirmed_at` has moved, and each time messages were applied."""
        self._on_progress.append(call)

    async def start(self, timeout_s: float = 30.0) -> None:
        """Returns when everything that was in the stream at the call has been applied; raises Failed(unavailable)."""
        with _or_unavailable("read"):
            await self._subscribe()
        self._task = asyncio.get_running_loop().create_task(self._watch())
        began = time.monotonic()
        while self.confirmed_at < began:
            if self.lost or time.monotonic() - began > timeout_s:
                raise Failed("unavailable", f"the stream {STREAM} could not be read within {timeout_s:g} s")
            await asyncio.sleep(0.005)

    async def _subscribe(self) -> None:
        await self._unsubscribe()
        self._next_consumer_seq, self._owed = 1, 0
        self._claims.clear()
        self._connections = self._bus.client.stats["reconnects"]
        self._inbox = self._bus.client.new_inbox()
        self._subscription = await self._bus.subscribe(self._inbox, self._receive)
        info = await self._bus.js.add_consumer(
            STREAM,
            ConsumerConfig(
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self.applied + 1,
                ack_policy=AckPolicy.NONE,
                max_deliver=1,
                mem_storage=True,
                num_replicas=1,
                inactive_threshold=30.0,
            ),
        )
        self._consumer = info.name
        self._progress_at = time.monotonic()
        await self._ask()

    async def _ask(self) -> None:
        """Lets the server send as much as fits into the window."""
        more, self._owed = WINDOW - self._owed, WINDOW
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{self._consumer}"
        await self._bus.client.publish(subject, json.dumps({"batch": more}).encode(), self._inbox)

    async def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with contextlib.suppress(nats.errors.Error):
                await subscription.unsubscribe()
        if self._consumer:
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                await self._bus.js.delete_consumer(STREAM, self._consumer)
            self._consumer = ""

    async def _receive(self, msg: Msg) -> None:
        if self._subscription is None:
            return
        if not msg.reply.startswith("$JS.ACK."):
            self._progress_at = float("-inf")
            return
        tokens = msg.reply.split(".")
        at = 5 if len(tokens) < 11 else 7
        stream_seq, consumer_seq = int(tokens[at]), int(tokens[at + 1])
        if consumer_seq != self._next_consumer_seq:
            self._progress_at = float("-inf")
            return
        self._next_consumer_seq += 1
        self._progress_at = time.monotonic()
        self._owed -= 1
        try:
            self._apply(Entry(stream_seq, msg.subject, msg.headers or {}, msg.data))
        except Exception as error:
            log.error("message %d of %s could not be applied: %s", stream_seq, STREAM, type(error).__name__)
        self._advance(stream_seq)
        if self._owed <= WINDOW // 2:
            await self._ask()  # may fail, and what it fails after has been applied

    def _advance(self, sequence: int) -> None:
        """Everything up to `sequence` has been applied; so has the end that was seen earlier, if that is not later."""
        self.applied = max(self.applied, sequence)
        while self._claims and self._claims[0][0] <= self.applied:
            self.confirmed_at = max(self.confirmed_at, self._claims.popleft()[1])
        for call in self._on_progress:
            call()

    async def _watch(self) -> None:
        while not cancelled() and not self.lost:
            try:
                await self.confirm()
                if self._stalled and not self.lost:
                    self.resets += 1
                    await self._subscribe()
            except Exception as error:
                log.warning("%s cannot be read now: %s", STREAM, type(error).__name__)
            await asyncio.sleep(POLL_S)

    @property
    def _stalled(self) -> bool:
        """Whether messages have stopped though there are more, or the server may have forgotten what it was asked."""
        late = self.applied < self._end and time.monotonic() - self._progress_at > STALLED_S
        return late or self._connections != self._bus.client.stats["reconnects"]

    async def confirm(self) -> None:
        """Asks the stream for its end: as soon as all of it has been applied, `confirmed_at` is the time of the asking.

        Messages that were deleted before they came here count as applied: `applied` moves past them.
        """
        asked_at = time.monotonic()
        try:
            info = await self._bus.js.stream_info(STREAM)
        except NotFoundError:
            self._lose()
            return
        self.created = self.created or info.created
        if info.created != self.created:
            self._lose()
            return
        self._end = end = info.state.last_seq
        gone = self.applied < end and not await self._more()
        self._claims.append((end, asked_at))
        if gone or self.applied >= end:
            self._advance(end)

    def _lose(self) -> None:
        self.lost, self.confirmed_at = True, float("-inf")
        self._claims.clear()

    async def _more(self) -> bool:
        """Whether the stream holds a message that was not applied; its end may be a sequence that was deleted.

        The stream is asked and not the consumer, which is told of a message only after that is stored.
        """
        try:
            await self._bus.js.get_msg(STREAM, seq=self.applied + 1, subject=">", next=True)
        except NotFoundError:
            return False
        return True

    async def close(self) -> None:
        """Stops reading and removes the consumer."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._bus.connected:
            await self._unsubscribe()


async def stream_state(bus: Bus) -> Any:
    """The state of HASTEN_CHANGES: `first_seq`, `last_seq` and `messages`; raises Failed(unavailable)."""
    with _or_unavailable("read"):
        info: StreamInfo = await bus.js.stream_info(STREAM)
    return info.state
