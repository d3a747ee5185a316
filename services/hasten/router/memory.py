"""Hears how attempts at workers went, and remembers: a stream keeps the latest of each model, so that a replica that
has just started, or has missed one, knows what the others know."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from datetime import datetime

import nats.errors
from msgspec import structs
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.api import DiscardPolicy, StorageType, StreamConfig
from nats.js.errors import APIError

from hasten.bus import Bus
from hasten.cancellation import cancelled
from hasten.codec import decode
from hasten.deadline import now_ms
from hasten.messages.attempt import ATTEMPTED, Attempted
from hasten.messages.failure import Failed
from hasten.telemetry import counter, logger
from hasten.topics import BadName

log = logger("router")
STREAM = "HASTEN_ATTEMPTS"
MAX_BYTES = 64 * 1024**2
"""Room for about 200 models with 1,200 attempts each."""
BATCH = 1000
SLICE = 32
"""Attempts heard in one go (0.5 ms), between which requests are answered."""
SILENT_S = 2.0
AGAIN_S = 1.0
"""The least time between two readings, however many events are missed."""
CHECK_S = 30.0
"""How often it is seen to that the stream is there."""
AHEAD_MS = 1000.0
"""Clocks of hosts differ. What comes from further in the future would be counted then, and push out what is now."""
Hear = Callable[[str, Attempted], int | None]
missed = counter("router_events_missed_total", "Events that did not come, by gaps in their numbers", "topic")


def stored_ms(stamp: str) -> float:
    """The unix time in ms of a message's time stamp in a stream."""
    return datetime.fromisoformat(stamp).timestamp() * 1000


class Memory:
    """Calls `hear` with the slug and each attempt, at least once; it returns how many of the same source are missing
    before it, None when that source is new and has said something before.

    The live events come first: what is read afterwards has been heard already or is older. `start` returns when all
    that the stream held has been heard, or after `patience_s` without it, when JetStream cannot be had: the reading is
    tried again then, and nobody waits for it.
    """

    def __init__(self, bus: Bus, hear: Hear, *, keep: int, keep_s: float, patience_s: float = 2.0) -> None:
        self._bus, self._hear = bus, hear
        self._keep, self._keep_s, self._patience_s = keep, keep_s, patience_s
        self._next = 1
        self._wanted = asyncio.Event()
        self._done = asyncio.Event()
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None
        self._warned = False
        self.readings = 0
        """How often the stream was read."""

    async def start(self) -> None:
        """Hears from now on, and learns what was before."""
        self._subscription = await self._bus.subscribe(ATTEMPTED.pattern, self._receive)
        await self._bus.flush()
        self._wanted.set()
        self._task = asyncio.get_running_loop().create_task(self._keep_up())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                await self._done.wait()

    async def _receive(self, msg: Msg) -> None:
        gap = self._take(msg.subject, msg.data, now_ms())
        missed.labels("attempted").inc(gap or 0)
        if gap != 0:
            self._wanted.set()

    def _take(self, subject: str, data: bytes, came_ms: float) -> int | None:
        try:
            event = decode(Attempted, data)
            if event.at_ms > came_ms + AHEAD_MS:
                event = structs.replace(event, at_ms=came_ms)
            return self._hear(ATTEMPTED.parse(subject)["slug"], event)
        except (Failed, BadName) as error:
            log.warning("an event on attempted was refused: %s", type(error).__name__)
            return 0

    async def _keep_up(self) -> None:
        while not cancelled():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_S):
                    await self._wanted.wait()
            reads = self._wanted.is_set()
            self._wanted.clear()
            try:
                await self._ensure()
                if reads:
                    await self._read()
            except (nats.errors.Error, TimeoutError) as error:
                self._wanted.set()
                if not self._warned:
                    log.warning("%s cannot be read now (%s): only new attempts count", STREAM, type(error).__name__)
            self._warned = self._wanted.is_set()
            await asyncio.sleep(AGAIN_S)

    async def _read(self) -> None:
        """Hears all that the stream has got since it was last read."""
        while await self._batch():
            pass
        self.readings += 1
        self._done.set()

    async def _ensure(self) -> None:
        config = StreamConfig(
            name=STREAM,
            subjects=[ATTEMPTED.pattern],
            storage=StorageType.FILE,
            discard=DiscardPolicy.OLD,
            max_age=self._keep_s,
            max_bytes=MAX_BYTES,
            max_msgs_per_subject=self._keep,
            allow_direct=True,
        )
        with contextlib.suppress(APIError):
            await self._bus.js.add_stream(config)
        info = await self._bus.js.stream_info(STREAM)
        kept, wanted = info.config, (self._keep, self._keep_s)
        if (kept.max_msgs_per_subject, kept.max_age) != wanted:
            kept.max_msgs_per_subject, kept.max_age = wanted
            await self._bus.js.update_stream(kept)
        if info.state.last_seq + 1 < self._next:
            self._next = 1  # it was made anew

    async def _batch(self) -> bool:
        """Hears the next ones; whether there are more."""
        inbox, heard = self._bus.client.new_inbox(), asyncio.Queue[Msg]()
        subscription = await self._bus.subscribe(inbox, heard.put)
        try:
            ask = {"seq": self._next, "batch": BATCH, "next_by_subj": ATTEMPTED.pattern}
            await self._bus.client.publish(f"$JS.API.DIRECT.GET.{STREAM}", json.dumps(ask).encode(), inbox)
            while True:
                async with asyncio.timeout(SILENT_S):
                    msg = await heard.get()
                headers = msg.headers or {}
                if "Nats-Sequence" not in headers:
                    return headers.get("Status") == "204" and int(headers.get("Nats-Num-Pending", 0)) > 0
                self._take(headers["Nats-Subject"], msg.data, stored_ms(headers["Nats-Time-Stamp"]))
                self._next = int(headers["Nats-Sequence"]) + 1
                if self._next % SLICE == 0:
                    await asyncio.sleep(0)
        finally:
            with contextlib.suppress(nats.errors.Error):
                await subscription.unsubscribe()

    async def close(self) -> None:
        """Stops hearing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._subscription is not None and self._bus.connected:
            with contextlib.suppress(nats.errors.Error):
                await self._subscription.unsubscribe()
