"""Writes one version of a document into the library: chunk, embed, store, make it the current one, clean up."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import TypeVar

from hasten.changes.positions import Position
from hasten.messages.retrieve import Document
from hasten.retriever.chunking import Chunk, chunks
from hasten.retriever.domain import Unfit
from hasten.retriever.embedding import Embedding
from hasten.retriever.library import Library
from hasten.retriever.matching import kept
from hasten.retriever.parent import leaning
from hasten.retriever.reading import readable
from hasten.retriever.records import (
    Manifest,
    chunk_point,
    embedded_spans,
    embedding_text,
    manifest_of,
    row_point,
    sentences_point,
)
from hasten.retriever.rows import Mail, Row, completed, says_the_same, supersedes
from hasten.retriever.settings import Settings
from hasten.telemetry import counter
from hasten.vectors.store import Point, Vector

T = TypeVar("T")
SPANS = 512
"""Sentences in one request to the embedder, at most: 260 kB of its reply."""
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
        if known is None or not supersedes(known, mail):
            if (floor := await self._floor(mail)) > mail.sequence:
                return Manifest(version=floor, deleted=True)
            made = await self._replace(mail, known)
            if known is None or made is not known:
                await self._library.flip(mail.key, made)
            known = made
            if await self._floor(mail) > mail.sequence:
                await self._library.discard(mail.key, mail.sequence)
        await self._library.clean(mail.key)
        return known

    async def _floor(self, mail: Mail) -> int:
        return 0 if mail.row is None else await self._library.floor(mail.row.origin)

    async def _replace(self, mail: Mail, known: Manifest | None = None) -> Manifest:
        """Writes what the version needs before it can be the current one, which is `known` if that says the same."""
        if mail.document.op == "delete":
            return manifest_of(mail.document, mail.sequence, 0, *_source(mail.row))
        whole, row = mail.document, mail.row
        if row is not None and row.missing:
            before = await self._library.row(mail.key, known.version) if known and not known.deleted else None
            whole, row = completed(mail.key, row, before)
        if known is not None and row is not None and says_the_same(known, row, whole):
            return known
        document = await self._aside(lambda: readable(whole))
        found = await self._aside(lambda: self._cut(document))
        await self._write(mail, document, found)
        if row is None:
            return manifest_of(document, mail.sequence, len(found), digest=whole.digest)
        await self._library.add([row_point(mail.key, mail.sequence, row.origin, row.values)])
        return manifest_of(document, mail.sequence, len(found), *_source(row), whole.digest)

    def _cut(self, document: Document) -> list[Chunk]:
        found = chunks(
            document.text, document.media_type, title=document.title, passage_chars=self._settings.passage_chars
        )
        if len(found) > self._settings.max_chunks:
            raise Unfit(f"the document has {len(found)} chunks, at most {self._settings.max_chunks} are taken")
        return found

    async def _write(self, mail: Mail, document: Document, found: list[Chunk]) -> None:
        own: list[Vector] = []
        raws: list[bytes] = []
        for part in self._batches(found):
            texts = [embedding_text(document, chunk) for chunk in part]
            spans = [embedded_spans(document, chunk) for chunk in part]
            vectors, sentences = await self._embedding.many(mail.key.tenant, texts, spans)
            own, raws = own + vectors, raws + sentences
        vectors = await self._aside(lambda: leaning(found, own, self._settings.parent_weight))
        for part in self._batches(found):
            points = await self._aside(partial(self._points, mail, document, part, vectors))
            await self._library.add(points)
            _chunks.inc(len(points))
        await self._write_sentences(mail, found, raws)

    async def _write_sentences(self, mail: Mail, found: list[Chunk], raws: list[bytes]) -> None:
        """One point for each passage: it is read with the passage, and by nobody else."""
        origin = mail.row.origin if mail.row else ""
        points = []
        for passage, group in groupby(found, lambda chunk: chunk.passage):
            of = list(group)
            if any(part := [raws[chunk.number] for chunk in of]):
                points.append(sentences_point(mail.key, mail.sequence, passage, kept(of, part), origin))
        for start in range(0, len(points), self._settings.embed_batch):
            await self._library.add(points[start : start + self._settings.embed_batch])

    def _points(self, mail: Mail, document: Document, part: list[Chunk], vectors: list[Vector]) -> list[Point]:
        origin, words = mail.row.origin if mail.row else "", self._settings.hybrid
        return [
            chunk_point(mail.key, mail.sequence, document, chunk, vectors[chunk.number], origin, words=words)
            for chunk in part
        ]

    def _batches(self, found: list[Chunk]) -> list[list[Chunk]]:
        """What goes to the embedder at once: its reply must fit into one message."""
        batches: list[list[Chunk]] = [[]]
        spans = 0
        for chunk in found:
            if len(batches[-1]) >= self._settings.embed_batch or (batches[-1] and spans + len(chunk.sentences) > SPANS):
                batches.append([])
                spans = 0
            batches[-1].append(chunk)
            spans += len(chunk.sentences)
        return batches if found else []

    async def _aside(self, work: Callable[[], T]) -> T:
        """Runs what takes long in a thread; pure Python there slows the event loop down but does not stop it."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """Ends the thread after what it is doing."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _source(row: Row | None) -> tuple[str, Position | None]:
    return ("", None) if row is None else (row.origin, row.at)
