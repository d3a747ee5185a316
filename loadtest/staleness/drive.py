"""Random operations against the cache's own subjects, by many callers at once, each checked by the model."""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Self

import msgspec
import numpy as np

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.cache import (
    CACHE_LOOKUP,
    CACHE_PUT,
    INVALIDATE,
    Answer,
    CacheHit,
    CacheLookup,
    CacheMiss,
    CachePut,
    Invalidate,
    Invalidation,
    NotStored,
    Stored,
)
from hasten.messages.change import CHANGE, Change
from hasten.messages.failure import Failed
from hasten.messages.retrieve import DOCUMENT, Document
from hasten.replicas import LEASE_S, MARGIN_S
from loadtest.staleness.fleet import DIM
from loadtest.staleness.world import COLLECTION, DOCUMENTS, MODEL, ROWS, TABLES, TENANTS, Question, World, questions

BARE_S = LEASE_S + MARGIN_S
"""When a change that was only published is binding: one lease after its acknowledgement."""
PATIENCE_MS = 1000
QUESTIONS = 60
KINDS = {"exact": 680, "meaning": 250, "change": 25, "repeat": 15, "document": 10, "invalidate": 15, "truncate": 1}
"""How often each operation is chosen, relative to the others; a miss is followed by a put in most cases."""


class Drive:
    """One run of operations. `counts` has them by kind, `hits`, `misses` and `puts` what came of them."""

    kinds = KINDS

    def __init__(self, bus: Bus, world: World, seed: int) -> None:
        self._bus, self.world, self._chance = bus, world, random.Random(seed)
        self._questions = questions(QUESTIONS)
        vectors = np.random.default_rng(7).standard_normal((QUESTIONS, DIM)).astype("<f4")
        self._vectors = [bytes((row / np.linalg.norm(row)).astype("<f4").tobytes()) for row in vectors]
        self.counts: Counter[str] = Counter()
        self.hits: Counter[str] = Counter()
        self.misses: Counter[str] = Counter()
        self.puts: Counter[str] = Counter()
        self._told: list[tuple[str, bytes]] = []
        self._log = 0
        self._late: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def playing(self) -> AsyncIterator[Self]:
        """What else has to be there meanwhile: nothing."""
        yield self

    async def run(self, operations: int, callers: int, enough: int) -> None:
        """Returns when that many operations have been carried out, or `enough` violations found."""

        async def call() -> None:
            while self.counts.total() < operations and len(self.world.violations) < enough:
                (kind,) = self._chance.choices(list(self.kinds), list(self.kinds.values()))
                self.counts[kind] += 1
                await getattr(self, f"_{kind}")()

        await asyncio.gather(*(call() for _ in range(callers)))
        await asyncio.gather(*self._late)

    def _any(self) -> tuple[str, Question]:
        """A tenant and a question, some of both asked more often than others."""
        return self._chance.choice(TENANTS), self._questions[int(len(self._questions) * self._chance.random() ** 2)]

    async def _exact(self) -> None:
        tenant, question = self._any()
        await self._ask(tenant, question, CacheLookup(key=question.key))

    async def _meaning(self) -> None:
        tenant, question = self._any()
        lookup = CacheLookup(
            key=f"other {question.key}",
            partition=question.partition,
            text=question.asked,
            vector=self._vectors[question.number],
        )
        await self._ask(tenant, question, lookup)

    async def _ask(self, tenant: str, question: Question, lookup: CacheLookup) -> None:
        began_s = time.monotonic()
        reply = await self._bus.request(CACHE_LOOKUP, lookup, tenant=tenant, deadline_ms=now_ms() + PATIENCE_MS)
        if isinstance(reply, CacheHit):
            self.hits[reply.kind] += 1
            self.world.check(reply.answer.text, tenant, question, began_s)
        elif isinstance(reply, CacheMiss):
            self.misses[reply.reason] += 1
            if self._chance.random() < 0.7:
                self._late.add(task := asyncio.create_task(self._put(tenant, question, reply.read_seq)))
                task.add_done_callback(self._late.discard)
        else:
            self.misses[reply.code] += 1

    async def _put(self, tenant: str, question: Question, read_seq: int) -> None:
        """Makes an answer some time after the miss and stores it some time after that: changes fall in between."""
        await asyncio.sleep(self._chance.choice((0.0, 0.0, 0.02)))
        text = self.world.read(tenant, question)
        await asyncio.sleep(self._chance.choice((0.0, 0.0, 0.0, 0.05, 0.5, 2.0)) * self._chance.random())
        body = CachePut(
            key=question.key,
            partition=question.partition,
            text=question.text,
            vector=self._vectors[question.number],
            answer=Answer(text=text, model=MODEL),
            tags=list(question.tags),
            read_seq=read_seq,
        )
        self.counts["put"] += 1
        reply = await self._bus.request(CACHE_PUT, body, tenant=tenant, deadline_ms=now_ms() + 5000)
        outcome = "stored" if isinstance(reply, Stored) else "failed"
        self.puts[reply.reason if isinstance(reply, NotStored) else outcome] += 1

    async def _change(self) -> None:
        table, row = self._chance.choice(TABLES), self._chance.randrange(ROWS)
        versions = self.world.raise_([f"{table}:{row}"])
        await self._tell(versions, *self._event(table, row, "u"), "change")

    async def _truncate(self) -> None:
        table = self._chance.choice(TABLES)
        versions = self.world.raise_([f"{table}:{row}" for row in range(ROWS)])
        await self._tell(versions, *self._event(table, None, "t"), "truncate")

    def _event(self, table: str, row: int | None, op: str) -> tuple[str, bytes]:
        """Our own form, or Debezium's with the place in the log at which the transaction was committed."""
        self._log += 1
        if self._chance.random() < 0.5:
            change = Change(table=table, key=row, op="truncate" if op == "t" else "update")
            return CHANGE.subject(source="shop"), msgspec.json.encode(change)
        source = {"connector": "postgresql", "name": "shop", "db": "shop", "schema": "public", "table": table}
        event = {"op": op, "source": source | {"lsn": 1000 + self._log, "ts_ms": time.time_ns() // 10**6}}
        image = {} if row is None else {"before": None, "after": {"id": row, "price": self._log}}
        return f"{CHANGE.subject(source='shop')}.public.{table}", msgspec.json.encode(event | image)

    async def _tell(self, versions: dict[str, int], subject: str, body: bytes, cause: str) -> None:
        """Publishes until it is acknowledged, as a pipeline does: what was stored without our knowing comes twice."""
        while True:
            try:
                await self._bus.store_raw(subject, body)
                break
            except Failed:
                await asyncio.sleep(0.1)
        self.world.bind(versions, time.monotonic() + BARE_S, cause)
        self._told = [*self._told[-50:], (subject, body)]

    async def _repeat(self) -> None:
        """An earlier change comes once more, behind later ones."""
        if self._told:
            await self._tell({}, *self._chance.choice(self._told), "repeat")

    async def _document(self) -> None:
        tenant, number = self._chance.choice(TENANTS), self._chance.randrange(DOCUMENTS)
        versions = self.world.raise_([f"{tenant}/version of document:{COLLECTION}/{number}"])
        document = Document(id=str(number), text="x")
        while True:
            try:
                await self._bus.store(DOCUMENT, document, tenant=tenant, collection=COLLECTION)
                break
            except Failed:
                await asyncio.sleep(0.1)
        self.world.bind(versions, time.monotonic() + BARE_S, "document")

    async def _invalidate(self) -> None:
        tenant, row = self._chance.choice(TENANTS), self._chance.randrange(ROWS)
        table, document = self._chance.choice(TABLES), f"{COLLECTION}/{self._chance.randrange(DOCUMENTS)}"
        named: list[tuple[str, Invalidate]] = [
            (f"{table}:{row}", Invalidate(tags=[f"{table}:{row}"])),
            (table, Invalidate(tags=[table])),
            (f"document:{document}", Invalidate(documents=[document])),
            (f"collection:{COLLECTION}", Invalidate(tags=[f"collection:{COLLECTION}"])),
            (f"model:{MODEL}", Invalidate(models=[MODEL])),
            ("everything", Invalidate(everything=True)),
        ]
        fact, body = self._chance.choices(named, (40, 4, 20, 4, 1, 1))[0]
        versions = self.world.raise_([f"{tenant}/{fact}"])
        reply = await self._bus.request(INVALIDATE, body, tenant=tenant, deadline_ms=now_ms() + 8000)
        if isinstance(reply, Invalidation):
            self.world.bind(versions, time.monotonic(), "invalidate")
        else:
            self.counts["invalidate failed"] += 1
