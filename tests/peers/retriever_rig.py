"""What the retriever's tests stand on: a retriever over a real NATS and a real store, with faults to switch on."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from indexed_words import HashedWords, hashed
from nats.aio.msg import Msg
from patience import until

from hasten.bus import Bus
from hasten.changes.settings import Changes
from hasten.codec import decode
from hasten.messages.failure import Failure
from hasten.messages.retrieve import DOCUMENT, INGESTED, RETRIEVE, Document, Ingested, Passage, Retrieve, Retrieved
from hasten.retriever.service import Retriever
from hasten.retriever.settings import Settings
from hasten.vectors.opening import store
from hasten.vectors.store import IndexKind, Match, Point, StoreError, Terms, Vector, VectorStore, Where

CHUNKS = Where(equal={"kind": "chunk"})


def prices(number: int, parts: int = 3) -> Document:
    """A version of one document that says its number in every section."""
    return Document(
        id="prices", text="\n\n".join(f"# Part {part}\n\nThe fee is {number} euro." for part in range(parts))
    )


def numbers(found: list[Passage]) -> set[int]:
    """The versions of `prices` that passages are from."""
    return {int(one.text.split("fee is ")[1].split()[0]) for one in found}


class Faulty:
    """A real store whose methods named in `broken` raise StoreError; `keep` leaves it open at close.

    `writes_left` upserts go through before the store is down, and `refused` is how many were not; `after_search` is
    awaited before a search returns; `unfiltered` searches ignore their filter.
    """

    def __init__(self, inner: VectorStore, *, keep: bool = False) -> None:
        self.inner, self.keep = inner, keep
        self.broken: set[str] = set()
        self.writes_left: int | None = None
        self.refused = 0
        self.after_search: Callable[[], Any] | None = None
        self.unfiltered = False

    def _check(self, method: str) -> None:
        if method in self.broken:
            raise StoreError("the store is down")

    async def open(self, dim: int, indexes: dict[str, IndexKind], *, terms: bool = False) -> list[str]:
        self._check("open")
        return await self.inner.open(dim, indexes, terms=terms)

    async def upsert(self, points: list[Point]) -> None:
        self._check("upsert")
        if self.writes_left is not None:
            if self.writes_left == 0:
                self.refused += 1
                raise StoreError("the store is down")
            self.writes_left -= 1
        await self.inner.upsert(points)

    async def get(self, ids: list[str]) -> list[Point]:
        self._check("get")
        return await self.inner.get(ids)

    async def search(self, vector: Vector, where: Where, limit: int) -> list[Match]:
        self._check("search")
        if self.unfiltered:
            where = Where(equal={"kind": "chunk"})
        found = await self.inner.search(vector, where, limit)
        if self.after_search is not None:
            await self.after_search()
        return found

    async def search_terms(self, terms: Terms, where: Where, corpus: Where, limit: int) -> list[Match]:
        self._check("search_terms")
        if self.unfiltered:
            where = Where(equal={"kind": "chunk"})
        return await self.inner.search_terms(terms, where, corpus, limit)

    async def scroll(
        self, where: Where, limit: int, fields: list[str] | None = None, *, vectors: bool = False
    ) -> list[Point]:
        self._check("scroll")
        return await self.inner.scroll(where, limit, fields, vectors=vectors)

    async def set_terms(self, terms: dict[str, Terms]) -> None:
        self._check("set_terms")
        await self.inner.set_terms(terms)

    async def set_payload(self, ids: list[str], payload: dict[str, Any]) -> None:
        self._check("set_payload")
        await self.inner.set_payload(ids, payload)

    async def delete(self, *, ids: list[str] | None = None, where: Where | None = None) -> int:
        self._check("delete")
        return await self.inner.delete(ids=ids, where=where)

    async def count(self, where: Where | None = None) -> int:
        self._check("count")
        return await self.inner.count(where)

    async def optimize(self) -> None:
        await self.inner.optimize()

    async def close(self) -> None:
        if not self.keep:
            await self.inner.close()


class Rig:
    """One retriever and what a client of it does; `heard` are the Ingested events in order."""

    def __init__(self, bus: Bus, retriever: Retriever, words: HashedWords, vectors: Faulty) -> None:
        self.bus, self.retriever, self.words, self.vectors = bus, retriever, words, vectors
        self.heard: list[Ingested] = []

    async def on_ingested(self, msg: Msg) -> None:
        self.heard.append(decode(Ingested, msg.data))

    async def send(self, document: Document, *, tenant: str = "acme", collection: str = "help") -> int:
        """Stores a document in the stream and returns its sequence."""
        return await self.bus.store(DOCUMENT, document, tenant=tenant, collection=collection)

    async def applied(self, sequence: int) -> Ingested:
        """The event for a message, when it comes."""
        await until(lambda: any(one.sequence == sequence for one in self.heard))
        return next(one for one in self.heard if one.sequence == sequence)

    async def put(self, document: Document, **tokens: str) -> Ingested:
        """Sends a document and waits until it has been applied."""
        return await self.applied(await self.send(document, **tokens))

    async def ask(self, query: str, *, tenant: str = "acme", **fields: Any) -> Retrieved | Failure:
        """Asks with a vector, so that the embedder has no part in it."""
        body = Retrieve(**{"knowledge": ["help"], "vector": hashed(query).tobytes(), "query": query, **fields})
        reply: Retrieved | Failure = await self.bus.request(RETRIEVE, body, tenant=tenant)
        return reply

    async def found(self, query: str, **fields: Any) -> list[Passage]:
        """The passages for a question that must be answered."""
        reply = await self.ask(query, **fields)
        assert isinstance(reply, Retrieved), reply
        return reply.passages


def vectors_for(url: str, folder: Path, *, keep: bool = False) -> Faulty:
    """A store at an address, with its switches."""
    return Faulty(store(url, folder, "passages"), keep=keep)


@asynccontextmanager
async def embedder(bus: Bus) -> AsyncIterator[HashedWords]:
    """A stand-in embedder that outlives a retriever."""
    words = HashedWords(bus)
    await words.start()
    yield words
    await words.close()


@asynccontextmanager
async def running(
    bus: Bus,
    folder: Path,
    *,
    url: str = ":memory:",
    vectors: Faulty | None = None,
    words: HashedWords | None = None,
    changes: Changes | None = None,
    **settings: Any,
) -> AsyncIterator[Rig]:
    """A started retriever with a stand-in embedder (its own if none is given), on a store in `folder`."""
    own = HashedWords(bus) if words is None else None
    if own is not None:
        await own.start()
    vectors = vectors or vectors_for(url, folder)
    retriever = Retriever(Settings(**{"retry_s": 0.02, "poll_s": 0.05, **settings}), bus, vectors, changes)
    rig = Rig(bus, retriever, words or own or HashedWords(bus), vectors)
    heard = await bus.subscribe(INGESTED.pattern, rig.on_ingested)
    try:
        await retriever.start()
        yield rig
        await retriever.drain()
    finally:
        await retriever.close()
        await bus.flush()
        await heard.drain()  # type: ignore[no-untyped-call]
        if own is not None:
            await own.close()
