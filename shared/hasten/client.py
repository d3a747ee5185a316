"""What a Python program talks to hasten with: ask and stream, ingest, change, invalidate, look around."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Self

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from hasten.address import nats_url
from hasten.answered import Answered
from hasten.bus import Bus
from hasten.chat_stream import ChatStream
from hasten.codec import decode
from hasten.deadline import now_ms
from hasten.discovery import Running, survey
from hasten.inbox import INBOX
from hasten.messages.cache import INVALIDATE, Invalidate, Invalidation
from hasten.messages.change import CHANGE, Change
from hasten.messages.chat import CANCEL, ChatReply, Nothing
from hasten.messages.explain import EXPLAIN, Explanation
from hasten.messages.failure import Failed, Failure
from hasten.messages.retrieve import DOCUMENT, DOCUMENTS, INGESTED, Document, DocumentList, Documents, Ingested
from hasten.messages.route import MODELS, ModelInfo, ModelList, Models
from hasten.topics import checked, random_id

Prompt = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""The words of a user, or the messages of a conversation, or a whole chat body."""

_EARLY = 4096
"""How many words about documents are kept whose store has not been acknowledged yet (the rest are other people's)."""


class Hasten:
    """One tenant's access to hasten over NATS. Make it with `async with Hasten.connect(url, tenant="acme") as hasten`.

    Methods raise Failed, which carries the Failure that was answered, and BadName for a tenant or collection that may
    not be part of a subject.
    """

    def __init__(self, bus: Bus, tenant: str) -> None:
        self.bus, self.tenant = bus, checked("tenant", tenant)
        self._early: dict[int, Ingested] = {}
        self._awaited: dict[int, asyncio.Future[Ingested]] = {}
        self._listening: asyncio.Task[Subscription] | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, url: str | None = None, *, tenant: str = "demo") -> AsyncIterator[Self]:
        """Connects to `url`, or to the system that `hasten.address` finds; raises Unreachable.

        Replies come to `_INBOX.<tenant>.…`, which is what a server with authentication lets the tenant subscribe to.
        """
        prefix = f"{INBOX}.{checked('tenant', tenant)}"
        name = f"hasten-{tenant}"
        bus = await Bus.connect(nats_url(url), name=name, inbox=prefix, inbox_prefix=prefix.encode())
        try:
            yield cls(bus, tenant)
        finally:
            await bus.close()

    async def chat(
        self, prompt: Prompt, *, timeout_s: float = 60.0, request_id: str | None = None, **options: Any
    ) -> AsyncIterator[ChatReply]:
        """Asks and yields the events of the answer as they come; the last one is Done or Failure.

        `options` are fields of ChatRequest (knowledge, model, cache …). Leaving the loop early, or being cancelled,
        stops the generation. An orchestrator that is lost in mid-stream, or a connection, costs a pause: the answer is
        gone on with from what has come, or ends with a Failure that says why not.
        """
        body, deadline_ms = {**_body(prompt), **options}, now_ms() + timeout_s * 1000
        stream = ChatStream(self.bus, self.tenant, body, deadline_ms=deadline_ms, request_id=request_id)
        async with await stream.open():
            async for event in stream:
                yield event

    async def ask(self, prompt: Prompt, *, timeout_s: float = 60.0, **options: Any) -> Answered:
        """Asks and returns the whole answer; raises Failed."""
        answered = Answered(request_id=random_id())
        async for event in self.chat(prompt, timeout_s=timeout_s, request_id=answered.request_id, **options):
            answered.add(event)
        if answered.failure is not None:
            raise Failed.of(answered.failure)
        return answered

    async def cancel(self, request_id: str) -> None:
        """Tells everybody that nobody waits for this request any more."""
        await self.bus.publish(CANCEL, Nothing(), tenant=self.tenant, request_id=request_id)

    async def ingest(self, collection: str, document: Document, *, timeout_s: float = 60.0) -> Ingested:
        """Stores a document (or its deletion) and returns when the next retrieval sees it; raises Failed."""
        sequence = await self.store(collection, document)
        try:
            async with asyncio.timeout(timeout_s):
                done = await self.applied(sequence)
        except TimeoutError:
            raise Failed("deadline", f"{document.id} is stored but was not indexed within {timeout_s:g} s") from None
        if done.error is not None:
            raise Failed("bad_request", f"{document.id} was refused: {done.error}")
        return done

    async def store(self, collection: str, document: Document, *, message_id: str = "") -> int:
        """Stores a document (or its deletion) and returns its version, see `applied`; raises Failed. The same
        `message_id` again within two minutes stores nothing more."""
        await self._listen()
        headers = {"Nats-Msg-Id": message_id} if message_id else None
        return await self.bus.store(DOCUMENT, document, headers=headers, tenant=self.tenant, collection=collection)

    async def documents(
        self,
        collection: str,
        *,
        ids: Sequence[str] = (),
        source: str = "",
        after: int = 0,
        timeout_s: float = 10.0,
    ) -> DocumentList:
        """Which of these documents, or which from a source, a collection holds; raises Failed."""
        what = Documents(collection=collection, ids=list(ids), source=source, after=after)
        reply = await self.bus.request(DOCUMENTS, what, deadline_ms=now_ms() + timeout_s * 1000, tenant=self.tenant)
        if not isinstance(reply, DocumentList):
            raise Failed.of(reply)
        return reply

    async def _listen(self) -> None:
        if self._listening is None:
            subject = INGESTED.subject(tenant=self.tenant)
            self._listening = asyncio.ensure_future(self.bus.subscribe(subject, self._on_ingested))
        await asyncio.shield(self._listening)

    async def _on_ingested(self, msg: Msg) -> None:
        with contextlib.suppress(Failed):
            event: Ingested = decode(Ingested, msg.data)
            waiting = self._awaited.pop(event.sequence, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(event)
            elif waiting is None:
                self._early[event.sequence] = event
                if len(self._early) > _EARLY:
                    self._early.pop(next(iter(self._early)))

    async def applied(self, sequence: int) -> Ingested:
        """What became of a document that was stored at this sequence, by this client; the word of it may be lost."""
        early = self._early.pop(sequence, None)
        if early is not None:
            return early
        waiting: asyncio.Future[Ingested] = asyncio.get_running_loop().create_future()
        self._awaited[sequence] = waiting
        try:
            return await waiting
        finally:
            self._awaited.pop(sequence, None)

    async def change(self, change: Change, *, source: str = "app") -> int:
        """Says that a row changed, for every tenant; returns the change's sequence. Answers from before go at most one
        second later; `invalidate` is the call that waits."""
        return await self.bus.store(CHANGE, change, source=source)

    async def invalidate(self, what: Invalidate, *, timeout_s: float = 30.0) -> Invalidation:
        """Removes answers and returns when no replica serves them any more; raises Failed."""
        deadline_ms = now_ms() + timeout_s * 1000
        reply = await self.bus.request(INVALIDATE, what, deadline_ms=deadline_ms, tenant=self.tenant)
        if isinstance(reply, Failure):
            raise Failed.of(reply)
        done: Invalidation = reply
        return done

    async def reject(self, request_id: str, *, reason: str = "", timeout_s: float = 30.0) -> Invalidation:
        """Removes the entry that wrongly answered a request by meaning, for good for this question; raises Failed."""
        return await self.invalidate(Invalidate(request_id=request_id, reason=reason), timeout_s=timeout_s)

    async def explain(self, prompt: Prompt, *, timeout_s: float = 10.0, **options: Any) -> Explanation:
        """Says where the answer to this request would come from at this moment and why, without asking a model; raises
        Failed. `prompt` and `options` are as in `chat`."""
        body = {**_body(prompt), **options}
        reply = await self.bus.request(EXPLAIN, body, deadline_ms=now_ms() + timeout_s * 1000, tenant=self.tenant)
        if not isinstance(reply, Explanation):
            raise Failed.of(reply)
        return reply

    async def models(self, *, timeout_s: float = 5.0) -> list[ModelInfo]:
        """The models that may be asked for, with their live figures; raises Failed."""
        return (await self.model_list(timeout_s=timeout_s)).models

    async def model_list(self, *, timeout_s: float = 5.0) -> ModelList:
        """Like `models`, with what one router says of its model table; raises Failed."""
        deadline_ms = now_ms() + timeout_s * 1000
        reply = await self.bus.request(MODELS, Models(), deadline_ms=deadline_ms, tenant=self.tenant)
        if not isinstance(reply, ModelList):
            raise Failed.of(reply)
        return reply

    async def services(self) -> list[Running]:
        """Every replica that runs, by name. A tenant's own NATS user is not allowed to ask: it sees none."""
        return await survey(self.bus)


def _body(prompt: Prompt) -> dict[str, Any]:
    if isinstance(prompt, str):
        return {"messages": [{"role": "user", "content": prompt}]}
    if isinstance(prompt, Mapping):
        return dict(prompt)
    return {"messages": list(prompt)}
