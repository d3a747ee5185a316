"""Hears topics under declared limits, answers every request exactly once, and can be drained without losing one."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from hasten.bus import Bus
from hasten.call import Call
from hasten.codec import decode
from hasten.discovery import Endpoint, answer_discovery
from hasten.limit import Limit
from hasten.messages.chat import CANCEL, STOP
from hasten.messages.failure import Failed
from hasten.requests import Admit, Handler, Heard, Requests
from hasten.telemetry import gauge, logger, where
from hasten.topics import PING_S, BadName, Topic

__all__ = ["PING_S", "Admit", "Call", "Handler", "Service"]

log = logger("service")
_pending = gauge(
    "bus_pending_messages", "Messages read and not yet looked at, by the topic's subjects", "service", "subject"
)
_pending_bytes = gauge("bus_pending_bytes", "Bytes of these messages", "service", "subject")
_info = gauge("build_info", "1 for each service that runs in this process", "service", "version")
_connected = gauge("bus_connected", "1 while the connection to NATS is there", "service")


class Service:
    """A named set of handlers on a bus.

    `answer` declares a request or stream topic with its limits, `listen` an event topic that every replica hears.
    `start` subscribes; `drain` stops hearing and waits until everything accepted has been answered; `close` cancels
    what is left. `report` adds the service's own figures to `$SRV.STATS`; `on_cancel` hears the tenant and the
    id of each request that is left, before that is stopped.
    """

    def __init__(
        self,
        bus: Bus,
        name: str,
        summary: str,
        *,
        report: Callable[[], dict[str, Any]] | None = None,
        on_cancel: Callable[[str, str], None] | None = None,
    ) -> None:
        self.bus, self.name, self.summary = bus, name, summary
        self.requests = Requests(bus, name)
        self.id = self.requests.id
        self.version = version("hasten")
        self.draining = False
        self.report = report or dict
        self._told = on_cancel
        self._heard: list[Heard] = []
        self._listeners: list[tuple[Topic, str, Callable[[Msg], Awaitable[None]]]] = []
        self._hearing: list[Subscription] = []
        self._hearing_last: list[Subscription] = []
        self._listening: list[Subscription] = []

    def answer(
        self,
        topic: Topic,
        handler: Handler,
        *,
        limit: int,
        waiting: int = 0,
        share: float = 1.0,
        admit: Admit | None = None,
        last: bool = False,
        **tokens: str,
    ) -> None:
        """Hears a request or stream topic: at most `limit` handlers at once, `waiting` more in line, then overloaded.

        The line is fair between tenants, and one of them may fill `share` of it.

        The handler gets (body, Call). For a request topic it returns the reply; for a stream it sends its events
        through the Call and ends with Done. Raising Failed answers with that Failure. `tokens` narrow the subject.
        `admit` (body, Call) may raise Failed before the request is accepted; it must not wait. A topic that is `last`
        is heard in a drain until all else that was accepted has been answered.
        """
        self._heard.append(Heard(self.name, topic, handler, Limit(limit, waiting, share=share), admit, tokens, last))

    def listen(self, topic: Topic, handler: Callable[[Any, dict[str, str]], None], **tokens: str) -> None:
        """Hears an event topic on every replica. The handler gets (body, tokens) and must not wait."""

        async def receive(msg: Msg) -> None:
            try:
                handler(decode(topic.request, msg.data), topic.parse(msg.subject))
            except (Failed, BadName) as error:
                log.warning("%s: an event on %s was refused: %s", self.name, topic.name, type(error).__name__)
            except Exception as error:
                log.error("%s: the listener of %s failed: %s", self.name, topic.name, where(error))

        self._listeners.append((topic, topic.narrowed(**tokens), receive))

    @property
    def active(self) -> int:
        """Requests being handled or waiting in line."""
        return len(self.requests)

    @property
    def pending(self) -> int:
        """Messages that have been read from the connection and not yet been looked at; idle, none."""
        hearing = (*self._hearing, *self._hearing_last, *self._listening)
        return sum(subscription.pending_msgs for subscription in hearing)

    async def start(self) -> None:
        """Subscribes to everything declared; requests are heard when it returns."""
        if self._heard:
            self.listen(CANCEL, self._on_cancel)
        for hearer in {heard.hearer for heard in self._heard}:
            self.listen(STOP, self._on_cancel, **({} if hearer is None else {"hearer": hearer}))
        for heard in self._heard:
            subscription = await self.bus.hear(
                heard.subject, self.requests.receiver(heard), queue=heard.topic.queue or ""
            )
            (self._hearing_last if heard.last else self._hearing).append(self._shown(subscription, heard.topic))
        for topic, subject, receive in self._listeners:
            self._listening.append(self._shown(await self.bus.subscribe(subject, receive), topic))
        _info.labels(self.name, self.version).set(1)
        _connected.labels(self.name).set_function(lambda: self.bus.connected)
        self._listening += await answer_discovery(self)
        await self.bus.flush()

    def _shown(self, subscription: Subscription, topic: Topic) -> Subscription:
        """By the topic, whose subjects hold ids of replicas and workers: every start would add series."""
        alike = self.bus.heard.setdefault((self.name, topic.pattern), [])
        alike.append(subscription)
        labels = (self.name, topic.pattern)
        _pending.labels(*labels).set_function(lambda: sum(one.pending_msgs for one in alike))
        _pending_bytes.labels(*labels).set_function(lambda: sum(one.pending_bytes for one in alike))
        return subscription

    @property
    def endpoints(self) -> list[Endpoint]:
        """What `$SRV` says of each topic."""
        return [heard.endpoint for heard in self._heard]

    def _on_cancel(self, _: Any, tokens: dict[str, str]) -> None:
        tenant, request_id = tokens["tenant"], tokens["request_id"]
        if self._told is not None:
            self._told(tenant, request_id)
        self.requests.cancel(tenant, request_id)

    async def drain(self, timeout_s: float = 30.0) -> None:
        """Stops hearing requests, then waits for all that was accepted, `timeout_s` at most.

        Events and cancellations are heard until then: what is still worked on may depend on them.
        """
        self.draining = True
        until = time.monotonic() + timeout_s
        for hearing in (self._hearing, self._hearing_last):
            await _drain(hearing)
            await self.requests.finished(until - time.monotonic())
        await _drain(self._listening)

    async def close(self) -> None:
        """Stops what is left; each caller still gets a Failure."""
        await self.requests.close()


async def _drain(subscriptions: list[Subscription]) -> None:
    async def one(subscription: Subscription) -> None:
        with contextlib.suppress(nats.errors.Error, TimeoutError):
            await subscription.drain()  # type: ignore[no-untyped-call]

    await asyncio.gather(*(one(subscription) for subscription in subscriptions))
    subscriptions.clear()
