"""Writes one version of a document into the library: chunk, embed, store, make it the current one, clean up."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hasten.messages.retrieve import Document
from hasten.retriever.chunking import Chunk, chunks
from hasten.retriever.domain import Refused
from hasten.retriever.embedding import Embedding
from hasten.retriever.library import Library
from hasten.retriever.reading import Mail, readable
from hasten.retriever.records import Manifest, chunk_point, embedding_text, manifest_of
from hasten.retriever.settings import Settings
from hasten.telemetry import counter

T = TypeVar("T")
_chunks = counter("retriever_chunks_total", "Chunks embedded and written")


class Writer:
    """Applies document messages. Any of its steps may be repeated: the same version makes the same points."""

    def __init__(self, settings: Settings, library: Library, embedding: Embedding) -> None:
        self._settings, self._library, self._embedding = settings, library, embedding
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chunking")

    async def apply(self, mail: Mail) -> Manifest:
        """The manifest in force when this version, or a newer one, has been applied and older ones are gone.

        Raises Refused for a document that can never be applied, Failed and StoreError for one that cannot be now.
        """
        known = (await self._library.stored({mail.key.id})).get(mail.key.id)
        if known is None or known.version < mail.sequence:
            known = await self._replace(mail)
            await self._library.flip(mail.key, known)
        await self._library.clean(mail.key)
        return known

    async def _replace(self, mail: Mail) -> Manifest:
        if mail.document.op == "delete":
            return manifest_of(mail.document, mail.sequence, 0)
        document = await self._aside(lambda: readable(mail.document))
        found = await self._aside(lambda: self._cut(document))
        for start in range(0, len(found), self._settings.embed_batch):
            await self._write(mail, document, found[start : start + self._settings.embed_batch])
        return manifest_of(document, mail.sequence, len(found))

    def _cut(self, document: Document) -> list[Chunk]:
        found = chunks(
            document.text, document.media_type, title=document.title, passage_chars=self._settings.passage_chars
        )
        if len(found) > self._settings.max_chunks:
            raise Refused(f"the document has {len(found)} chunks, at most {self._settings.max_chunks} are taken")
        return found

    async def _write(self, mail: Mail, document: Document, part: list[Chunk]) -> None:
        vectors = await self._embedding.many(mail.key.tenant, [embedding_text(document, chunk) for chunk in part])
        points = [
            chunk_point(mail.key, mail.sequence, document, chunk, vector)
            for chunk, vector in zip(part, vectors, strict=True)
        ]
        await self._library.add(points)
        _chunks.inc(len(points))

    async def _aside(self, work: Callable[[], T]) -> T:
        """Runs what takes long in a thread; pure Python there slows the event loop down but does not stop it."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """Ends the thread after what it is doing."""
        self._thread.shutdown(wait=False, cancel_futures=True)
