"""Random questions through orchestrators, which remember hits and join generations, each answer checked by the model.

The router, the compressor and the worker are played here: the worker's answer says what it was made from, and it takes
long enough for others to join.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from typing import Self

from hasten.bus import Bus
from hasten.chunks import split_text
from hasten.client import Hasten
from hasten.messages.chat import Chunk, Done, Usage
from hasten.messages.compress import COMPRESS, Compress, Compressed
from hasten.messages.failure import Failed
from hasten.messages.generate import GENERATE, Generate
from hasten.messages.route import ROUTE, Route, Routed
from hasten.service import Call, Service
from loadtest.staleness.drive import Drive
from loadtest.staleness.world import MODEL, TENANTS, Question, World

KINDS = {"chat": 900, "change": 30, "repeat": 15, "document": 10, "invalidate": 30, "truncate": 1}
QUESTIONS = 12
"""Few, so that many ask the same at once and hot answers stay in the orchestrators' memory."""
PATIENCE_S = 3.0


class Peers:
    """The services between an orchestrator and its answer that hold nothing which could be stale."""

    def __init__(self, bus: Bus, world: World, asked: dict[str, Question], chance: random.Random) -> None:
        self._world, self._asked, self._chance = world, asked, chance
        self.generated = 0
        self._service = Service(bus, "played", "A router and a compressor that are played.")
        self._service.answer(ROUTE, self._route, limit=500)
        self._service.answer(COMPRESS, self._compress, limit=500)
        self._worker = Service(bus, "worker", "A worker that says what it reads.")
        self._worker.answer(GENERATE, self._generate, limit=500, slug=MODEL, worker="w1")

    async def start(self) -> None:
        """Hears."""
        await self._service.start()
        await self._worker.start()

    async def close(self) -> None:
        """Ends."""
        await self._service.close()
        await self._worker.close()

    async def _route(self, _: Route, __: Call) -> Routed:
        return Routed(model=MODEL, slug=MODEL, worker="w1", reason="played")

    async def _compress(self, body: Compress, _: Call) -> Compressed:
        return Compressed(messages=body.messages, tokens_before=9, tokens_after=9)

    async def _generate(self, body: Generate, call: Call) -> None:
        """Reads the facts once, at its beginning, as a model reads its prompt."""
        self.generated += 1
        text = self._world.read(call.tenant, self._asked[body.messages[-1].text])
        pieces = split_text(text)
        for seq, piece in enumerate(pieces):
            await call.send(Chunk(seq=seq, text=piece))
            if seq % 8 == 0:
                await asyncio.sleep(self._chance.choice((0.0, 0.05, 0.2)) * self._chance.random())
        usage = Usage(prompt_tokens=9, completion_tokens=len(pieces))
        await call.send(Done(finish_reason="stop", usage=usage, model=MODEL, chunks=len(pieces)))


class ChatDrive(Drive):
    """Operations of which the questions go to the orchestrators; `hits` counts where their answers came from."""

    kinds = KINDS

    def __init__(self, bus: Bus, world: World, seed: int) -> None:
        super().__init__(bus, world, seed)
        self._questions = self._questions[:QUESTIONS]
        self._tenants = {tenant: Hasten(bus, tenant) for tenant in TENANTS}
        self._peers = Peers(bus, world, {one.text: one for one in self._questions}, random.Random(seed + 2))

    @contextlib.asynccontextmanager
    async def playing(self) -> AsyncIterator[Self]:
        """The peers are there meanwhile."""
        await self._peers.start()
        try:
            yield self
        finally:
            self.puts["generated"] = self._peers.generated
            await self._peers.close()

    async def _chat(self) -> None:
        tenant, question = self._any()
        began_s = time.monotonic()
        try:
            answered = await self._tenants[tenant].ask(
                question.text, timeout_s=PATIENCE_S, cache={"tags": list(question.tags)}
            )
        except Failed as failed:
            self.misses[failed.failure.code] += 1
            return
        self.hits[answered.cache] += 1
        self.world.check(answered.text, tenant, question, began_s)
