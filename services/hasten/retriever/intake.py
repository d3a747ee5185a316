"""The durable consumer of HASTEN_CHANGES: hands out messages, and knows how far all replicas together have come.

A message is acknowledged only when it has been applied, so the consumer's acknowledgement floor says what every reader
of the store sees. A message that is being worked on is kept from being delivered to another replica meanwhile.
"""

import asyncio
import contextlib

import nats.errors
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from hasten.bus import Bus
from hasten.journal import ensure_stream
from hasten.messages.change import STREAM
from hasten.telemetry import gauge, logger

log = logger("retriever")
_lag = gauge("retriever_lag_messages", "Messages of the stream that have not been applied")
DURABLE = "retriever"
MAX_ACK_PENDING = 1024
TAKE_S = 2.0
MORE_S = 0.5
REPLY_S = 5.0


def sequence(msg: Msg) -> int:
    """The place of a message in the stream."""
    return int(msg.metadata.sequence.stream)


class Intake:
    """One replica's hold on the shared consumer. Methods raise nats.errors.Error or TimeoutError."""

    def __init__(self, bus: Bus, *, ack_wait_s: float) -> None:
        self._bus, self._ack_wait_s = bus, ack_wait_s
        self._subscription: JetStreamContext.PullSubscription | None = None
        self._held: dict[int, Msg] = {}
        self._asking = asyncio.Lock()
        self.keep_s = ack_wait_s / 4
        self._settling: set[int] = set()
        self._first = 0
        self._bound = False
        self.idle = False
        self.applied = 0
        self.lag = 0

    async def stream(self, sources: list[str]) -> str:
        """Makes the stream if need be; returns when it was made, which tells it from another of the same name."""
        await ensure_stream(self._bus, sources, anew=self._bound)
        return str((await self._bus.js.stream_info(STREAM)).created)

    async def forget(self) -> None:
        """Makes the next `bind` begin with the first message that the stream holds."""
        with contextlib.suppress(NotFoundError):
            await self._bus.js.delete_consumer(STREAM, DURABLE)

    async def bind(self) -> None:
        """Makes the consumer if need be; what was not acknowledged comes again."""
        await self.stop()
        config = ConsumerConfig(
            durable_name=DURABLE,
            deliver_policy=DeliverPolicy.ALL,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=self._ack_wait_s,
            max_ack_pending=MAX_ACK_PENDING,
        )
        self._held.clear()
        await self._bus.js.add_consumer(STREAM, config)
        self._subscription = await self._bus.js.pull_subscribe_bind(DURABLE, stream=STREAM)
        self._bound = True
        await self.refresh()

    @property
    def holding(self) -> int:
        """How many messages are held: taken, and neither done nor given back."""
        return len(self._held)

    async def take(self, limit: int) -> list[Msg]:
        """The next messages, `limit` at most and none when none comes for a while; all of them are held.

        May be cancelled while it is `idle`: nothing has been delivered then.
        """
        self.idle = True
        try:
            taken = await self._fetch(1, TAKE_S)
        finally:
            self.idle = False
        if taken and (more := min(limit - 1, taken[0].metadata.num_pending or 0)) > 0:
            taken += await self._fetch(more, MORE_S)
        return taken

    async def _fetch(self, limit: int, wait_s: float) -> list[Msg]:
        if self._subscription is None:
            raise nats.errors.BadSubscriptionError
        try:
            fetched = await self._subscription.fetch(limit, timeout=wait_s)
        except TimeoutError:
            return []
        self._held |= {sequence(msg): msg for msg in fetched}
        return fetched

    async def keep(self) -> None:
        """Keeps what is held from being delivered again for another while; see `keep_s`."""
        for msg in list(self._held.values()):
            with contextlib.suppress(nats.errors.Error):
                await msg.in_progress()

    async def overtaken(self, msg: Msg) -> bool:
        """Whether a message that is held counts as applied all the same, for the other replicas too: the stream was
        purged meanwhile."""
        info = await self._bus.js.consumer_info(STREAM, DURABLE)
        return info.ack_floor is not None and info.ack_floor.stream_seq >= sequence(msg)

    async def done(self, msg: Msg) -> None:
        """Says that a message has been applied, and returns when the server knows."""
        at = sequence(msg)
        self._settling.add(at)
        try:
            await msg.ack_sync(timeout=REPLY_S)
        finally:
            self._held.pop(at, None)
            self._settling.discard(at)

    async def passed(self, msgs: list[Msg]) -> None:
        """Says of messages that nothing has to be done for them."""
        for msg in msgs[:-1]:
            self._held.pop(sequence(msg), None)
            await msg.ack()
        if msgs:
            await self.done(msgs[-1])

    async def again(self, msg: Msg, delay_s: float) -> None:
        """Gives a message back, to be delivered again after a while to any replica."""
        self._held.pop(sequence(msg), None)
        await msg.nak(delay=delay_s)

    async def refuse(self, msg: Msg) -> None:
        """Says that a message can never be applied."""
        self._held.pop(sequence(msg), None)
        await msg.term()

    async def refresh(self) -> None:
        """Asks how far the consumer is.

        `applied` is the sequence up to which everything has been applied by whatever replica: the acknowledgement
        floor, and never beyond what is held here (a purge of the stream moves the floor over messages that are still
        being worked on). After the deletion of single messages at the end of the stream it stays lower until the next
        message, which is on the safe side.
        """
        async with self._asking:
            held = self._held.keys() - self._settling
            info = await self._bus.js.consumer_info(STREAM, DURABLE)
            alone = held == self._held.keys() - self._settling and (info.num_ack_pending or 0) <= len(held)
            self._first = min(held, default=0) if alone else 0
            floor = info.ack_floor.stream_seq if info.ack_floor else 0
            self.applied = min(floor, min(self._held, default=floor + 1) - 1)
            self.lag = (info.num_pending or 0) + (info.num_ack_pending or 0)

    async def note(self) -> None:
        """Refreshes if the server answers; else what is known stays, which is on the safe side."""
        try:
            await self.refresh()
            _lag.set(self.lag)
        except (nats.errors.Error, TimeoutError) as error:
            log.debug("how far the consumer is cannot be asked: %s", type(error).__name__)

    def clear_before(self, sequence: int) -> bool:
        """Whether all messages before this one, which is held, had been applied at the last `refresh`.

        So it is at the acknowledgement floor, or when nothing is unacknowledged anywhere but what is held here and this
        is the first of it: single messages that were deleted from the stream leave the floor behind. What is just being
        acknowledged here does not count as held, for the server may not count it any more.
        """
        return self.applied >= sequence - 1 or self._first == sequence

    async def stop(self) -> None:
        """Takes no more. Comes before anything is given back, which would else be delivered here again."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with contextlib.suppress(nats.errors.Error):
                await subscription.unsubscribe()

    async def close(self) -> None:
        """Stops and gives back what is held."""
        await self.stop()
        with contextlib.suppress(nats.errors.Error, TimeoutError):
            for msg in list(self._held.values()):
                await self.again(msg, 0.0)
