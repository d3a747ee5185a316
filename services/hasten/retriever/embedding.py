"""Asks the embedder over the bus, and makes sure that it is still the model the stored vectors come from."""

import asyncio

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.failure import RETRYABLE, Failed, Failure
from hasten.quantised import SCALE_BYTES
from hasten.retriever.domain import Refused, vector_of
from hasten.telemetry import logger
from hasten.vectors.store import Vector

log = logger("retriever")
PASSING = RETRYABLE | {"deadline"}
"""Failures that say nothing about the texts: waiting helps."""
PROBE_TENANT = "hasten"
TRIES = 4
PAUSE_S = 0.25
WAITING_S = 10.0
Spans = list[list[tuple[int, int]]]


class Embedding:
    """Texts to vectors. `model` and `dim` are known once `find` has returned; a reply of another model is refused."""

    def __init__(self, bus: Bus, *, timeout_s: float) -> None:
        self._bus, self._timeout_s = bus, timeout_s
        self.model, self.dim = "", 0

    async def find(self) -> None:
        """Waits until an embedder answers, however long that takes, and takes its model for ours."""
        tries = 0
        while True:
            reply = await self._ask(PROBE_TENANT, ["dimension"], now_ms() + self._timeout_s * 1000)
            if isinstance(reply, Embedded):
                self.model, self.dim = reply.model, reply.dim
                return
            if tries % round(WAITING_S / PAUSE_S) == 0:
                log.warning("the retriever waits for an embedder: %s", reply.code)
            tries += 1
            await asyncio.sleep(PAUSE_S)

    async def _ask(
        self, tenant: str, texts: list[str], deadline_ms: float, spans: Spans | None = None
    ) -> Embedded | Failure:
        reply: Embedded | Failure = await self._bus.request(
            EMBED, Embed(texts=texts, spans=spans or []), tenant=tenant, deadline_ms=deadline_ms
        )
        return reply

    async def one(self, tenant: str, text: str, deadline_ms: float) -> Vector:
        """The vector of a question, asked once; raises Failed."""
        return (await self._vectors(tenant, [text], deadline_ms))[0][0]

    async def _vectors(
        self, tenant: str, texts: list[str], deadline_ms: float, spans: Spans | None = None
    ) -> tuple[list[Vector], list[bytes]]:
        reply = await self._ask(tenant, texts, deadline_ms, spans)
        if isinstance(reply, Failure):
            raise Failed.of(reply)
        if reply.model != self.model:
            raise Failed("unavailable", f"the embedder runs {reply.model}, the passages were embedded by {self.model}")
        if len(reply.vectors) != len(texts):
            raise Failed("internal", "the embedder did not answer with one vector per text")
        try:
            return [vector_of(raw, self.dim) for raw in reply.vectors], self._stretches(reply, spans or [])
        except Refused as error:
            raise Failed("internal", f"the embedder's answer cannot be used: {error}") from None

    def _stretches(self, reply: Embedded, spans: Spans) -> list[bytes]:
        """The vectors of the stretches of each text; none from an embedder that does not make them yet."""
        if not reply.spans:
            return [b"" for _ in reply.vectors]
        wanted = [len(one) * (self.dim + SCALE_BYTES) for one in spans]
        if [len(raw) for raw in reply.spans] != wanted:
            raise Refused("it has not one vector per span")
        return reply.spans

    async def many(
        self, tenant: str, texts: list[str], spans: Spans, tries: int = TRIES
    ) -> tuple[list[Vector], list[bytes]]:
        """The vectors of a document's texts, and of the stretches of each as hasten.quantised packs them.

        What passes with time is waited for a little, else raises Failed."""
        try:
            return await self._vectors(tenant, texts, now_ms() + self._timeout_s * 1000, spans)
        except Failed as failed:
            if tries <= 1 or failed.failure.code not in PASSING:
                raise
            pause_s = max(PAUSE_S * 2 ** (TRIES - tries), (failed.failure.retry_after_ms or 0) / 1000)
        await asyncio.sleep(pause_s)
        return await self.many(tenant, texts, spans, tries - 1)
