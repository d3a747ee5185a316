"""The requests that one service is working on: each is admitted or refused, and answered exactly once."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
import nats.errors
from nats.aio.msg import Msg

from hasten.bus import Bus
from hasten.call import Call, ping
from hasten.codec import decode_request
from hasten.discovery import Endpoint
from hasten.inbox import is_inbox
from hasten.limit import Limit
from hasten.messages.failure import Failed, Failure
from hasten.telemetry import counter, gauge, histogram, logger, where
from hasten.topics import BadName, Reply, Topic, random_id
from hasten.tracing import Span, Tracing

log = logger("service")
OVERTAKING_S = 0.01
"""A CANCEL sent right behind its request comes by another subscription and is mostly heard first."""
_requests = counter("requests_total", "Requests heard, by outcome", "service", "topic", "outcome")
_active = gauge("requests_active", "Requests being handled", "service", "topic")
_seconds = histogram("request_duration_seconds", "Time from hearing a request to its last reply", "service", "topic")

Handler = Callable[[Any, Call], Awaitable[Any]]
Admit = Callable[[Any, Call], None]


class Heard:
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


class Requests:
    """Those of the replica `id` of the service `name`. Its length is how many are being handled or wait in line;
    `calls` has those that can be cancelled, by tenant and request id."""

    def __init__(self, bus: Bus, name: str) -> None:
        self._bus, self._name = bus, name
        self.id = random_id()
        self._tasks: dict[asyncio.Task[None], Call | None] = {}
        self.calls: dict[tuple[str, str], Call] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def cancel(self, tenant: str, request_id: str) -> None:
        """Stops a request whose caller has left; one that has not come yet is stopped a moment later."""
        key = (tenant, request_id)
        if not self._stop(key):
            asyncio.get_running_loop().call_later(OVERTAKING_S, self._stop, key)

    def _stop(self, key: tuple[str, str]) -> bool:
        call = self.calls.get(key)
        if call is not None:
            call.cancel()
        return call is not None

    def receiver(self, heard: Heard) -> Callable[[Msg], None]:
        """What takes the messages of a topic; it must be made where the loop runs."""
        loop = asyncio.get_running_loop()

        def receive(msg: Msg) -> None:
            if not is_inbox(msg.reply):
                self._unanswerable(heard)
                return
            task = loop.create_task(self._handle(heard, msg))
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)

        return receive

    def _unanswerable(self, heard: Heard) -> None:
        problem = "the reply subject is not an inbox"
        if heard.endpoint.last_error != problem:
            log.warning("%s: a request on %s cannot be answered: %s (_INBOX.…)", self._name, heard.topic.name, problem)
        heard.endpoint.failed(problem)

    async def _handle(self, heard: Heard, msg: Msg) -> None:
        started = time.perf_counter()
        task = asyncio.current_task()
        assert task is not None
        call: Call | None = None
        reply: Any = None
        span = None if self._bus.tracing is None else self._span(self._bus.tracing, heard, msg)
        try:
            call = self._tasks[task] = Call(self._bus, heard.topic, msg, heard.topic.parse(msg.subject), task)
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

    def _span(self, tracing: Tracing, heard: Heard, msg: Msg) -> Span:
        """The span of one request, beneath that of its caller."""
        about = {
            "messaging.system": "nats",
            "messaging.operation.type": "process",
            "messaging.destination.template": heard.topic.template,
        }
        return tracing.serve(self._name, heard.topic.name, msg.headers or {}, about)

    def _count(self, heard: Heard, error: str | None, seconds: float) -> None:
        heard.endpoint.handled(seconds, None if error == "cancelled" else error)
        (heard.done if error is None else _requests.labels(self._name, heard.topic.name, error)).inc()
        heard.seconds.observe(seconds)

    def _broken(self, heard: Heard, error: BaseException) -> Failure:
        log.error("%s: handling %s failed: %s", self._name, heard.topic.name, where(error))
        return Failure(code="internal", detail=f"{self._name} failed ({type(error).__name__})")

    async def _finish(self, heard: Heard, msg: Msg, reply: Any) -> Any:
        """Sends the last word and returns it; one that cannot be sent is replaced by a Failure that can."""
        try:
            if not isinstance(reply, Reply):
                raise TypeError("a handler returns a reply of its topic")
            await self._bus.send(msg.reply, reply)
            return reply
        except nats.errors.Error:
            return reply
        except Failed as failed:
            last = failed.failure
        except Exception as error:
            last = self._broken(heard, error)
        with contextlib.suppress(nats.errors.Error):
            await self._bus.send(msg.reply, last)
        return last

    async def _admit(self, heard: Heard, msg: Msg, call: Call) -> Any:
        if heard.limit.full(call.tenant):
            raise Failed("overloaded", f"{self._name} is full", retry_after_ms=heard.limit.retry_after_ms())
        if call.remaining_s() <= 0:
            raise Failed("deadline", "the deadline had passed when the request arrived")
        body = decode_request(heard.topic, msg.data)
        if heard.admit is not None:
            heard.admit(body, call)
        key = (call.tenant, call.request_id)
        if heard.topic.kind != "stream":
            return await self._run_one(heard, body, call, key)
        if (other := self.calls.get(key)) is not None:
            if not heard.topic.replaces:
                raise Failed("bad_request", "a request with this id is being answered")
            other.cancel("disconnected")
        self.calls[key] = call
        try:
            return await self._run(heard, call, self._many(heard, body, call))
        finally:
            if self.calls.get(key) is call:
                del self.calls[key]

    async def _run_one(self, heard: Heard, body: Any, call: Call, key: tuple[str, str]) -> Any:
        """One reply; a second request with the same id is answered as well, and only the first can be cancelled."""
        known = self.calls.setdefault(key, call)
        try:
            return await self._run(heard, call, self._one(heard, body, call))
        finally:
            if known is call and self.calls.get(key) is call:
                del self.calls[key]

    async def _run(self, heard: Heard, call: Call, work: Coroutine[Any, Any, Any]) -> Any:
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

    async def _one(self, heard: Heard, body: Any, call: Call) -> Any:
        async with heard.limit.place(call.tenant):
            if call.remaining_s() <= 0:
                raise Failed("deadline", "the deadline passed in the line")
            call.admitted.set()
            with heard.in_progress.track_inprogress():
                return await heard.handler(body, call)

    async def _many(self, heard: Heard, body: Any, call: Call) -> Any:
        """Sends pings while the request waits in line or its handler is silent."""
        pinging = asyncio.get_running_loop().create_task(ping(call))
        try:
            await self._one(heard, body, call)
        finally:
            pinging.cancel()
        return None if call.ended else Failure(code="incomplete", detail=f"{self._name} ended without a result")

    async def finished(self, timeout_s: float) -> None:
        """Returns when all that was accepted has been answered, or after `timeout_s`, which is logged."""
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=max(0.0, timeout_s))
            if late:
                log.error("%s: %d requests were not finished in the drain", self._name, len(late))

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


def _with_sent(reply: Any, call: Call | None) -> Any:
    """A failure with how many chunks had been sent before it, unless it says so itself."""
    if isinstance(reply, Failure) and call is not None and not reply.tokens_sent:
        return msgspec.structs.replace(reply, tokens_sent=call.chunks)
    return reply
