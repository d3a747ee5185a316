"""Answers retrieve from the library, and keeps the library up with the documents in HASTEN_CHANGES."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from hasten.bus import Bus
from hasten.changes.settings import Changes
from hasten.messages.failure import Failed
from hasten.messages.lookup import Lookup
from hasten.messages.retrieve import DOCUMENTS, RETRIEVE, DocumentList, Documents, Passage, Retrieve, Retrieved
from hasten.retriever.catalogue import Catalogue
from hasten.retriever.domain import Refused, check_filter, fitting, vector_of
from hasten.retriever.embedding import Embedding
from hasten.retriever.fusion import Blend
from hasten.retriever.ingestion import Ingestion
from hasten.retriever.intake import Intake
from hasten.retriever.library import Library
from hasten.retriever.lookup import joined
from hasten.retriever.lookups import Lookups, check_all
from hasten.retriever.rerankers import Model
from hasten.retriever.reranking import Reranker
from hasten.retriever.settings import Settings
from hasten.retriever.writer import Writer
from hasten.service import Call, Service
from hasten.telemetry import histogram, logger
from hasten.topics import BadName, checked
from hasten.vectors.opening import store
from hasten.vectors.store import StoreError, Vector, VectorStore

log = logger("retriever")
_seconds = histogram("retriever_search_seconds", "Time in the store for one request")
MAX_COLLECTIONS = 32
ENVELOPE_BYTES = 8 * 1024
"""What a reply may need beside what it says: headers, and the names of its last fields."""
COUNT_S = 5.0


class Retriever:
    """One replica. Several share the stream's durable consumer and one Qdrant server. `model` is the cross-encoder, if
    not the one that the settings name."""

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        vectors: VectorStore,
        changes: Changes | None = None,
        model: Model | None = None,
    ) -> None:
        self._settings, self._bus = settings, bus
        blend = Blend(weight=settings.lexical_weight, weights=settings.lexical_weights)
        self._library = Library(vectors, blend if settings.hybrid else None)
        self._embedding = Embedding(bus, timeout_s=settings.embed_timeout_s)
        self._lookups = Lookups(bus, settings.lookups)
        self._reranker = Reranker(settings, model)
        self._intake = Intake(bus, ack_wait_s=settings.ack_wait_s)
        writer = Writer(settings, self._library, self._embedding)
        self._ingestion = Ingestion(settings, bus, changes or Changes(), self._intake, self._library, writer)
        self._service = Service(bus, "retriever", "Finds passages in documents.", report=self.report)
        self._service.answer(RETRIEVE, self._on_retrieve, limit=settings.limit, waiting=settings.waiting)
        self._service.answer(DOCUMENTS, self._on_documents, limit=settings.limit, waiting=settings.waiting)
        self._catalogue = Catalogue(self._library)
        self._counting: asyncio.Task[None] | None = None
        self._sizes = (0, 0)
        self._closing = False

    async def start(self) -> None:
        """Waits for an embedder, opens the store, binds to the stream and hears requests."""
        await self._embedding.find()
        await self._library.open(self._embedding.dim, self._embedding.model, self._settings.indexed)
        await self._ingestion.start()
        await self._reranker.start()
        self._sizes = await self._library.sizes()
        self._counting = asyncio.get_running_loop().create_task(self._count())
        await self._service.start()

    async def _count(self) -> None:
        while not self._closing:
            await asyncio.sleep(COUNT_S)
            try:
                self._sizes = await self._library.sizes()
                await self._library.count_words()
            except StoreError as error:
                log.warning("the store cannot be counted: %s", error)

    async def _on_retrieve(self, body: Retrieve, call: Call) -> Retrieved:
        """Everything up to `read_seq` was applied before the search began: it is taken first. The collections and every
        look-up are asked together; what they bring is ranked by one measure, then cut to what was asked for."""
        read_seq = self._intake.applied
        names = self._checked(body)
        collections = [name for name in names if name not in self._lookups]
        tools = [name for name in names if name in self._lookups]
        asked = Lookup(query=body.query, filter=body.filter, limit=body.limit)
        looking = asyncio.get_running_loop().create_task(self._lookups.ask(tools, asked, call))
        try:
            found, missing = await self._search(body, collections, call)
            brought = await looking
        finally:
            looking.cancel()
        made = joined(found, brought, read_seq)
        passages, reranking = await self._reranker.rerank(body.rerank, body.query, made.passages, call.remaining_s())
        bare = msgspec.structs.replace(made, passages=[], reranking=reranking, missing=[*missing, *made.missing])
        room = self._bus.client.max_payload - ENVELOPE_BYTES - len(msgspec.json.encode(bare))
        kept, partial = fitting(passages[: body.limit], room)
        return msgspec.structs.replace(bare, passages=kept, partial=partial)

    async def _search(self, body: Retrieve, collections: list[str], call: Call) -> tuple[list[Passage], list[str]]:
        """The passages of the collections, more than asked for where they are read again, and who holds nothing."""
        if not collections:
            return [], []
        vector = await self._vector(body, call)
        width = self._settings.rerank_candidates if self._reranker.wanted(body.rerank) else 0
        try:
            with _seconds.time():
                found = await self._library.search(
                    vector, call.tenant, collections, body.filter, max(body.limit, width), question=body.query
                )
                found = await self._library.compared(found, call.tenant, vector)
            empty = [name for name in collections if not any(one.collection == name for one in found)]
            return found, [name for name in empty if not await self._library.holds(call.tenant, name)]
        except StoreError as error:
            raise Failed("unavailable", str(error), retry_after_ms=1000) from None

    async def _on_documents(self, body: Documents, call: Call) -> DocumentList:
        return await self._catalogue.answer(body, call.tenant, self._intake.applied)

    def _checked(self, body: Retrieve) -> list[str]:
        """The collections, each once; raises Failed(bad_request) for what cannot be asked."""
        if not 1 <= body.limit <= self._settings.max_limit:
            raise Failed("bad_request", f"limit must be 1 to {self._settings.max_limit}", param="limit")
        if len(body.knowledge) > MAX_COLLECTIONS:
            raise Failed("bad_request", f"at most {MAX_COLLECTIONS} collections at once", param="knowledge")
        try:
            check_filter(body.filter)
            return list(dict.fromkeys(checked("collection", name) for name in body.knowledge))
        except BadName as error:
            raise Failed("bad_request", str(error), param="knowledge") from None
        except Refused as error:
            raise Failed("bad_request", str(error), param="filter") from None

    async def _vector(self, body: Retrieve, call: Call) -> Vector:
        if body.vector is None:
            return await self._embedding.one(call.tenant, body.query, call.deadline_ms)
        try:
            return vector_of(body.vector, self._embedding.dim)
        except Refused as error:
            raise Failed("bad_request", str(error), param="vector") from None

    def report(self) -> dict[str, Any]:
        """Documents and chunks (counted now and then), messages not yet applied, the sequence applied up to; how
        many chunks cannot be found by words yet, which are searched at all once there are none, the indexes that the
        store lacked at the start, and the cross-encoder that reranks, empty for none."""
        documents, passages = self._sizes
        return {
            "documents": documents,
            "passages": passages,
            "lag": self._intake.lag,
            "applied": self._intake.applied,
            "wordless": self._library.wordless,
            "mended": self._library.mended,
            "rerank": self._reranker.state,
        }

    async def drain(self) -> None:
        """Stops hearing and taking, and finishes what was accepted."""
        await asyncio.gather(self._service.drain(), self._ingestion.drain())

    async def close(self) -> None:
        """Ends what is left and closes the store."""
        self._closing = True
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait({self._counting})
        await self._service.close()
        await self._ingestion.close()
        self._reranker.close()
        await self._library.close()


def check_settings(settings: Settings) -> None:
    """Raises SettingsError for look-ups that cannot be asked."""
    check_all(settings.lookups)


def build(settings: Settings, bus: Bus, changes: Changes | None = None) -> Retriever:
    """The whole wiring of the service; raises StoreError for an address that is none."""
    vectors = store(settings.store_url, Path(settings.data), "passages", api_key=settings.store_api_key or None)
    return Retriever(settings, bus, vectors, changes)
