"""Hears topics under declared limits, answers every request exactly once, and can be drained without losing one."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from importlib.metadata import version
from typing import Any

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from hasten.bus import Bus, is_inbox
from hasten.call import Call, ping
from hasten.codec import decode, decode_request
from hasten.discovery import Endpoint, answer_discovery
from hasten.limit import Limit
from hasten.messages.chat import CANCEL, STOP
from hasten.messages.failure import Failed, Failure
from hasten.telemetry import counter, gauge, histogram, logger, where
from hasten.topics import PING_S, BadName, Reply, Topic, random_id
from hasten.tracing import Span, Tracing

__all__ = ["PING_S", "Admit", "Call", "Handler", "Service"]

log = logger("service")
OVERTAKING_S = 0.01
"""A CANCEL sent right behind its request comes by another subscription and is mostly heard first."""
_requests = counter("requests_total", "Requests heard, by outcome", "service", "topic", "outcome")
_pending = gauge(
    "bus_pending_messages", "Messages read and not yet looked at, by the topic's subjects", "service", "subject"
)
_pending_bytes = gauge("bus_pending_bytes", "Bytes of these messages", "service", "subject")
_active = gauge("requests_active", "Requests being handled", "service", "topic")
_info = gauge("build_info", "1 for each service that runs in this process", "service", "version")
_connected = gauge("bus_connected", "1 while the connection to NATS is there", "service")
_seconds = histogram("request_duration_seconds", "Time from hearing a request to its last reply", "service", "topic")


Handler = Callable[[Any, Call], Awaitable[Any]]
Admit = Callable[[Any, Call], None]


class _Heard:
    """One topic that a service hears: its handler, its limit and what it has counted."""

    def __init__(
        self,
        service: str,
        topic: Topic,
        handler: Handler,
        limit: Limit,
        admit: Admit | None,
        tokens: dict[str, str],
        last: bool,
    ) -> None:
        subject = topic.narrowed(**tokens)
        self.topic, self.handler, self.limit, self.admit = topic, handler, limit, admit
        self.subject, self.last, self.hearer = subject, last, topic.hearer(tokens)
        self.in_progress = _active.labels(service, topic.name)
        self.seconds = _seconds.labels(service, topic.name)
        self.done = _requests.labels(service, topic.name, "done")
        self.endpoint = Endpoint(name=topic.name.replace(".", "-"), subject=subject, queue_group=topic.queue or "")


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
        self.id = random_id()
        self.version = version("hasten")
        self.draining = False
        self.report = report or dict
        self._told = on_cancel
        self._heard: list[_Heard] = []
        self._listeners: list[tuple[Topic, str, Callable[[Msg], Awaitable[None]]]] = []
        self._hearing: list[Subscription] = []
        self._hearing_last: list[Subscription] = []
        self._listening: list[Subscription] = []
        self._tasks: dict[asyncio.Task[None], Call | None] = {}
        self._calls: dict[tuple[str, str], Call] = {}

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
        self._heard.append(_Heard(self.name, topic, handler, Limit(limit, waiting, share=share), admit, tokens, last))

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
        return len(self._tasks)

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
            subscription = await self.bus.hear(heard.subject, self._receiver(heard), queue=heard.topic.queue or "")
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
        key = (tokens["tenant"], tokens["request_id"])
        if self._told is not None:
            self._told(*key)
        if not self._stop(key):
            asyncio.get_running_loop().call_later(OVERTAKING_S, self._stop, key)

    def _stop(self, key: tuple[str, str]) -> bool:
        call = self._calls.get(key)
        if call is not None:
            call.cancel()
        return call is not None

    def _receiver(self, heard: _Heard) -> Callable[[Msg], None]:
        loop = asyncio.get_running_loop()

        def receive(msg: Msg) -> None:
            if not is_inbox(msg.reply):
                self._unanswerable(heard)
                return
            task = loop.create_task(self._handle(heard, msg))
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)

        return receive

    def _unanswerable(self, heard: _Heard) -> None:
        problem = "the reply subject is not an inbox"
        if heard.endpoint.last_error != problem:
            log.warning("%s: a request on %s cannot be answered: %s (_INBOX.…)", self.name, heard.topic.name, problem)
        heard.endpoint.failed(problem)

    async def _handle(self, heard: _Heard, msg: Msg) -> None:
        started = time.perf_counter()
        task = asyncio.current_task()
        assert task is not None
        call: Call | None = None
        reply: Any = None
        span = None if self.bus.tracing is None else self._span(self.bus.tracing, heard, msg)
        try:
            call = self._tasks[task] = Call(self.bus, heard.topic, msg, heard.topic.parse(msg.subject), task)
            call.replica, call.span = self.id, span
            if span is not None:
                span.set({"hasten.tenant": call.tenant, "hasten.request_id": call.request_id})
            reply = await self._admit(heard, msg, call)
        except BadName as error:
            reply = Failure(code="bad_request", detail=str(error))
        except Failed as failed:
            reply = failed.failure
        except Exception as error:
            reply = self._broken(heard, error)
        if call is None or not call.close():
            reply = await self._finish(heard, msg, _with_sent(reply, call))
        code = reply.code if isinstance(reply, Failure) else call.failed if call is not None else None
        self._count(heard, code, time.perf_counter() - started)
        if span is not None:
            span.end(code)

    def _span(self, tracing: Tracing, heard: _Heard, msg: Msg) -> Span:
        """The span of one request, beneath that of its caller."""
        about = {
            "messaging.system": "nats",
            "messaging.operation.type": "process",
            "messaging.destination.template": heard.topic.template,
        }
        return tracing.serve(self.name, heard.topic.name, msg.headers or {}, about)

    def _count(self, heard: _Heard, error: str | None, seconds: float) -> None:
        heard.endpoint.handled(seconds, None if error == "cancelled" else error)
        (heard.done if error is None else _requests.labels(self.name, heard.topic.name, error)).inc()
        heard.seconds.observe(seconds)

    def _broken(self, heard: _Heard, error: BaseException) -> Failure:
        log.error("%s: handling %s failed: %s", self.name, heard.topic.name, where(error))
        return Failure(code="internal", detail=f"{self.name} failed ({type(error).__name__})")

    async def _finish(self, heard: _Heard, msg: Msg, reply: Any) -> Any:
        """Sends the last word and returns it; one that cannot be sent is replaced by a Failure that can."""
        try:
            if not isinstance(reply, Reply):
                raise TypeError("a handler returns a reply of its topic")
            await self.bus.send(msg.reply, reply)
            return reply
        except nats.errors.Error:
            return reply
        except Failed as failed:
            last = failed.failure
        except Exception as error:
            last = self._broken(heard, error)
        with contextlib.suppress(nats.errors.Error):
            await self.bus.send(msg.reply, last)
        return last

    async def _admit(self, heard: _Heard, msg: Msg, call: Call) -> Any:
        if heard.limit.full(call.tenant):
            raise Failed("overloaded", f"{self.name} is full", retry_after_ms=heard.limit.retry_after_ms())
        if call.remaining_s() <= 0:
            raise Failed("deadline", "the deadline had passed when the request arrived")
        body = decode_request(heard.topic, msg.data)
        if heard.admit is not None:
            heard.admit(body, call)
        key = (call.tenant, call.request_id)
        if heard.topic.kind != "stream":
            return await self._run_one(heard, body, call, key)
        if (other := self._calls.get(key)) is not None:
            if not heard.topic.replaces:
                raise Failed("bad_request", "a request with this id is being answered")
            other.cancel("disconnected")
        self._calls[key] = call
        try:
            return await self._run(heard, call, self._many(heard, body, call))
        finally:
            if self._calls.get(key) is call:
                del self._calls[key]

    async def _run_one(self, heard: _Heard, body: Any, call: Call, key: tuple[str, str]) -> Any:
        """One reply; a second request with the same id is answered as well, and only the first can be cancelled."""
        known = self._calls.setdefault(key, call)
        try:
            return await self._run(heard, call, self._one(heard, body, call))
        finally:
            if known is call and self._calls.get(key) is call:
                del self._calls[key]

    async def _run(self, heard: _Heard, call: Call, work: Coroutine[Any, Any, Any]) -> Any:
        """Does the work until the deadline and turns whatever happens into one reply."""
        limit = asyncio.timeout(call.remaining_s())
        try:
            async with limit:
                return await work
        except TimeoutError as error:
            return (
                Failure(code="deadline", detail="the deadline passed")
                if limit.expired()
                else self._broken(heard, error)
            )
        except asyncio.CancelledError:
            return Failure(code=call.reason, detail="the request was stopped")
        except Failed as failed:
            return failed.failure
        except Exception as error:
            return self._broken(heard, error)

    async def _one(self, heard: _Heard, body: Any, call: Call) -> Any:
        async with heard.limit.place(call.tenant):
            if call.remaining_s() <= 0:
                raise Failed("deadline", "the deadline passed in the line")
            call.admitted.set()
            with heard.in_progress.track_inprogress():
                return await heard.handler(body, call)

    async def _many(self, heard: _Heard, body: Any, call: Call) -> Any:
        """Sends pings while the request waits in line or its handler is silent."""
        pinging = asyncio.get_running_loop().create_task(ping(call))
        try:
            await self._one(heard, body, call)
        finally:
            pinging.cancel()
        return None if call.ended else Failure(code="incomplete", detail=f"{self.name} ended without a result")

    async def drain(self, timeout_s: float = 30.0) -> None:
        """Stops hearing requests, then waits for all that was accepted, `timeout_s` at most.

        Events and cancellations are heard until then: what is still worked on may depend on them.
        """
        self.draining = True
        until = time.monotonic() + timeout_s
        for hearing in (self._hearing, self._hearing_last):
            await _drain(hearing)
            if self._tasks:
                _, late = await asyncio.wait(set(self._tasks), timeout=max(0.0, until - time.monotonic()))
                if late:
                    log.error("%s: %d requests were not finished in the drain", self.name, len(late))
        await _drain(self._listening)

    async def close(self) -> None:
        """Stops what is left; each caller still gets a Failure."""
        await asyncio.sleep(0)
        for call in self._tasks.values():
            if call is not None:
                call.cancel("draining")
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=2)
            for task in late:
                task.cancel()


async def _drain(subscriptions: list[Subscription]) -> None:
    async def one(subscription: Subscription) -> None:
        with contextlib.suppress(nats.errors.Error, TimeoutError):
            await subscription.drain()  # type: ignore[no-untyped-call]

    await asyncio.gather(*(one(subscription) for subscription in subscriptions))
    subscriptions.clear()


def _with_sent(reply: Any, call: Call | None) -> Any:
    """A failure with how many chunks had been sent before it, unless it says so itself."""
    if isinstance(reply, Failure) and call is not None and not reply.tokens_sent:
        return msgspec.structs.replace(reply, tokens_sent=call.chunks)
    return reply
