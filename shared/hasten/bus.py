"""One NATS connection, one wildcard inbox for all replies, one deadline per request; nothing here knows a service."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from hasten.codec import encode
from hasten.connection import Connection, Unreachable
from hasten.deadline import DEADLINE, DEFAULT_TIMEOUT_S, REQUEST_ID, RESUMABLE, TENANT, now_ms
from hasten.inbox import INBOX, Forget, Inbox, Sink
from hasten.lookout import Lookout
from hasten.messages.chat import CANCEL, STOP, Nothing
from hasten.messages.failure import Failed, Failure
from hasten.outage import AGAIN_S, Outage, is_unavailable
from hasten.stream import IDLE_S, Stream
from hasten.telemetry import logger
from hasten.topics import Topic, checked, random_id
from hasten.tracing import TRACEPARENT, Tracing
from hasten.tries import Tries, reply_of

__all__ = ["Bus", "Unreachable"]

SendTo = Callable[[str], Awaitable[None]]


log = logger("bus")


class Bus:
    """A process's connection to NATS. Make it with `Bus.connect`; every service of the process shares it."""

    def __init__(self, client: Connection, inbox: str) -> None:
        self._client = client
        self.serves = inbox == INBOX
        """Whether this is a service's connection; a tenant's may publish to no inbox and look for no process."""
        self._inbox = Inbox(client, inbox, tells=self.serves)
        self._outage = Outage()
        self.js = client.jetstream(timeout=5)
        self.heard: dict[tuple[str, str], list[Subscription]] = {}
        """The subscriptions of its services, by service and topic."""
        self.tracing: Tracing | None = None
        """Where its process makes spans, and takes their context along."""

    @classmethod
    async def connect(
        cls, url: str, *, name: str = "hasten", inbox: str = INBOX, timeout_s: float = 5.0, **options: Any
    ) -> Self:
        """Connects and keeps reconnecting for ever afterwards; raises Unreachable if there is no server now."""
        client = Connection()
        bus = cls(client, inbox)
        outage = bus._outage
        callbacks = {"disconnected_cb": outage.begin, "reconnected_cb": outage.end}
        await client.dial(url, bus._inbox.start, name=name, timeout_s=timeout_s, **(callbacks | options))
        return bus

    @property
    def client(self) -> Client:
        """The nats-py client underneath."""
        return self._client

    @property
    def connected(self) -> bool:
        """Whether the server can be reached at this moment."""
        return bool(self._client.is_connected)

    @property
    def unsettled(self) -> bool:
        """Whether the connection is away, or came back so lately that what is not heard of others says nothing."""
        return not self.connected or self._outage.recent

    @property
    def outstanding(self) -> int:
        """How many requests and streams wait for replies."""
        return len(self._inbox)

    @property
    def subscriptions(self) -> int:
        """How many subscriptions the connection has."""
        return len(self._client._subs)

    def _headers(self, deadline_ms: float, request_id: str | None, headers: dict[str, str] | None) -> dict[str, str]:
        made = dict(headers or {})
        made[DEADLINE] = str(int(deadline_ms))
        if request_id is not None:
            made[REQUEST_ID] = checked("request id", request_id)
        if self.tracing is not None and TRACEPARENT not in made:
            made |= self.tracing.headers()
        return made

    def _payload(self, body: Any) -> bytes:
        try:
            payload = encode(body)
        except UnicodeEncodeError:
            raise Failed("bad_request", "the message holds text that is not valid Unicode") from None
        self._check_size(payload)
        return payload

    def _check_size(self, payload: bytes) -> None:
        limit = self._client.max_payload
        if limit and len(payload) > limit - 1024:
            raise Failed("too_large", f"the message has {len(payload)} bytes, the server takes {limit - 1024}")

    async def publish(self, topic: Topic, body: Any, *, headers: dict[str, str] | None = None, **tokens: str) -> None:
        """Publishes an event. Raises BadName for a bad token and Failed(too_large)."""
        await self.send(topic.subject(**tokens), body, headers=headers)

    async def send(self, subject: str, body: Any, *, reply: str = "", headers: dict[str, str] | None = None) -> None:
        """Publishes a body to a subject made elsewhere (a reply subject). Raises Failed(too_large)."""
        await self._client.publish(subject, self._payload(body), reply, headers)

    async def store(self, topic: Topic, body: Any, *, headers: dict[str, str] | None = None, **tokens: str) -> int:
        """Publishes to JetStream and returns the sequence it was stored at; raises Failed(too_large | unavailable)."""
        return await self.store_raw(topic.subject(**tokens), self._payload(body), headers=headers)

    async def store_raw(self, subject: str, payload: bytes, *, headers: dict[str, str] | None = None) -> int:
        """Like `store`, for bytes and subjects of others."""
        self._check_size(payload)
        try:
            ack = await self.js.publish(subject, payload, headers=headers)
        except (nats.errors.Error, TimeoutError) as error:
            raise Failed("unavailable", f"JetStream did not store the message ({type(error).__name__})") from None
        return int(ack.seq)

    async def request(
        self,
        topic: Topic,
        body: Any,
        *,
        deadline_ms: float | None = None,
        request_id: str | None = None,
        headers: dict[str, str] | None = None,
        again_s: Sequence[float] = (),
        **tokens: str,
    ) -> Any:
        """Sends a request and returns the reply Struct, which may be a Failure.

        Raises BadName for a token or request id that may not be in a subject, and nothing else. `deadline_ms` is
        absolute (unix ms); without it the request may take `DEFAULT_TIMEOUT_S`. A request that was sent before the
        connection was lost and has no reply `LATE_REPLY_S` after it is back fails as disconnected; until then one
        that is `unavailable` is sent anew. When the caller is cancelled, whoever works on it is told to stop. One that
        may be answered twice is sent again after each silence of `again_s`: its replica may hang or be dead.
        """
        deadline_ms, request_id = deadline_ms or now_ms() + DEFAULT_TIMEOUT_S * 1000, request_id or random_id()
        subject, sent_headers = topic.subject(**tokens), self._headers(deadline_ms, request_id, headers)

        async def send(reply: str) -> None:
            await self.send(subject, body, reply=reply, headers=sent_headers)

        try:
            while True:
                reply = await self._ask(topic, send, deadline_ms, again_s)
                if not (is_unavailable(reply) and self.unsettled):
                    return reply
                await asyncio.sleep(AGAIN_S)
        except asyncio.CancelledError:
            await self.cancel(topic, request_id, **{"tenant": (headers or {}).get(TENANT, ""), **tokens})
            raise

    async def _ask(self, topic: Topic, send: SendTo, deadline_ms: float, again_s: Sequence[float]) -> Any:
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()

        def receive(msg: Msg) -> None:
            if not answer.done() and tries.answered(msg):
                answer.set_result(msg)

        reply, forget = self._inbox.open(receive)
        self._outage.waits(answer)
        tries = Tries(topic, lambda: send(reply), again_s)
        try:
            async with asyncio.timeout(max(0.0, (deadline_ms - now_ms()) / 1000)), tries:
                return reply_of(topic, await answer)
        except TimeoutError:
            return Failure(code="deadline", detail=f"no answer on {topic.name} before the deadline")
        except Failed as failed:
            return failed.failure
        except nats.errors.Error as error:
            return Failure(code="disconnected", detail=f"NATS: {type(error).__name__}", retry_after_ms=1000)
        finally:
            forget()
            answer.cancel()
            self._outage.waits_no_more(answer)

    async def stream(
        self,
        topic: Topic,
        body: Any,
        *,
        deadline_ms: float | None = None,
        request_id: str | None = None,
        headers: dict[str, str] | None = None,
        idle_s: float = IDLE_S,
        first_s: float | None = None,
        next_seq: int = 0,
        resumable: bool = False,
        probe: str = "",
        **tokens: str,
    ) -> Stream:
        """Sends a request whose replies are a stream. Raises BadName, and Failed when it could not be sent.

        A topic whose subject holds no tenant has it in the TENANT header. Leaving the stream early stops it; a
        `resumable` one that was lost does not, and its sender goes on for a while. `probe` is the name of the service
        that sends: in a silence the server is asked whether its process is there, and if not the stream ends at once.
        """
        deadline_ms = deadline_ms or now_ms() + DEFAULT_TIMEOUT_S * 1000
        request_id = checked("request id", request_id or random_id())
        subject = topic.subject(**tokens)
        tenant = tokens["tenant"] if "tenant" in tokens else checked("tenant", (headers or {})[TENANT])
        sent_headers = self._headers(deadline_ms, request_id, headers) | ({RESUMABLE: "1"} if resumable else {})
        ended_there = f"the process of the {probe} has ended"
        lookout = Lookout(probe, self._client, self._inbox.watch, lambda: stream.lose(ended_there))
        reply, forget_replies = self._inbox.open(lambda msg: _push(stream, topic, msg))

        def ended() -> None:
            forget_replies()
            lookout.stop()

        stream = Stream(
            deadline_ms,
            idle_s,
            ended,
            lambda: self.cancel(topic, request_id, **{**tokens, "tenant": tenant}),
            next_seq=next_seq,
            first_s=first_s,
            resumable=resumable,
            probe=lookout.look if probe else None,
        )
        try:
            await self.send(subject, body, reply=reply, headers=sent_headers)
        except BaseException as error:
            ended()
            if isinstance(error, nats.errors.Error):
                raise Failed("disconnected", f"NATS: {type(error).__name__}", retry_after_ms=1000) from None
            raise
        return stream

    async def cancel(self, topic: Topic, request_id: str, *, tenant: str, **tokens: str) -> None:
        """Stops a request that its caller has left. A service tells those who may have it, a tenant's client everybody:
        it may not speak to them alone."""
        if not tenant:
            return
        hearer = topic.hearer(tokens) if self.serves else None
        with contextlib.suppress(nats.errors.Error):
            if hearer is None:
                await self.publish(CANCEL, Nothing(), tenant=tenant, request_id=request_id)
            else:
                await self.publish(STOP, Nothing(), hearer=hearer, tenant=tenant, request_id=request_id)

    def watch_reader(self, gone: Callable[[], None]) -> tuple[str, Forget]:
        """A reply subject to publish chunks with: `gone` is called when the server says that nobody reads them. Returns
        the subject and what forgets it."""
        return self._inbox.watch(gone)

    async def subscribe(
        self, subject: str, callback: Callable[[Msg], Awaitable[None]], *, queue: str = ""
    ) -> Subscription:
        """Subscribes with a callback, which is awaited before the next message is delivered: it must not wait."""
        made = await self._client.subscribe(
            subject, queue=queue, cb=callback, pending_msgs_limit=65536, pending_bytes_limit=128 * 1024 * 1024
        )
        return made

    async def hear(self, subject: str, receive: Sink, *, queue: str = "") -> Subscription:
        """Subscribes with a function that is called as each message is read: it must not wait nor raise."""
        return await self._client.hear(subject, receive, queue=queue)

    async def flush(self) -> None:
        """Returns when the server has handled every subscription and message of ours so far."""
        await self._client.flush()

    async def close(self) -> int:
        """Flushes what was published and closes; returns, and says in the log, how many bytes could not be flushed."""
        if self._client.is_connected:
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                async with asyncio.timeout(2):
                    await self.flush()
        if left := await self._client.abandon():
            log.error("closed with %d bytes that never reached the server", left)
        return left


def _push(stream: Stream, topic: Topic, msg: Msg) -> None:
    try:
        stream.push(reply_of(topic, msg))
    except Failed as failed:
        stream.fail(failed.failure)
