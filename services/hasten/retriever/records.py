"""How documents lie in the store: the ids and payloads of their points, and the filters that find them; pure.

A version of a document becomes the current one when its manifest appears, which is a single write; the highest version
wins, in whatever order and by whichever replica the manifests are written.
"""

import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hasten.changes.positions import Position
from hasten.messages.chat import Scalar
from hasten.messages.retrieve import Document
from hasten.retriever.bm25 import VERSION, document_terms
from hasten.retriever.chunking import Chunk
from hasten.vectors.store import IndexKind, Point, Vector, Where

INDEXES: dict[str, IndexKind] = {
    "tenant": "keyword",
    "collection": "keyword",
    "kind": "keyword",
    "key": "keyword",
    "version": "integer",
    "deleted": "bool",
    "origin": "keyword",
    "source": "keyword",
    "slot": "integer",
    "terms_version": "integer",
}
SLOTS = 2**32
"""Documents are spread over so many numbers by their keys: a stretch of them is a page of a long list."""
MAX_TITLE_CHARS = 200
"""How much of a title is embedded with each chunk."""
_NAMESPACE = uuid.UUID("6b1f2a57-2c0e-5d0c-9f43-7a5f5c1d8e10")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Key(msgspec.Struct, frozen=True):
    """What a document is known by."""

    tenant: str
    collection: str
    document: str

    @property
    def id(self) -> str:
        """A UUID that stands for the three in the store's payloads."""
        return _uuid(self.tenant, self.collection, self.document)


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a document: that it is there in full (or deleted), and what all of its passages share.

    `digest` tells the document from another as it was sent, and `source` where from. Of one that was made of a row:
    `origin` is its table and `at` the change's place in the source's log.
    """

    version: int
    deleted: bool = False
    chunks: int = 0
    title: str = ""
    url: str = ""
    tags: list[str] = []
    metadata: dict[str, Any] = {}
    origin: str = ""
    at: Position | None = None
    digest: str = ""
    source: str = ""


def _uuid(*parts: str | int) -> str:
    return str(uuid.uuid5(_NAMESPACE, msgspec.json.encode(parts).decode()))


def about_id() -> str:
    """The id of the one point that describes the collection."""
    return _uuid("about")


def manifest_of(
    document: Document, version: int, chunks: int, origin: str = "", at: Position | None = None, digest: str = ""
) -> Manifest:
    """The manifest that makes this version of a document the current one."""
    if document.op == "delete":
        return Manifest(version=version, deleted=True, origin=origin, at=at)
    return Manifest(
        version=version,
        chunks=chunks,
        title=document.title,
        url=document.url,
        tags=document.tags,
        metadata=document.metadata,
        origin=origin,
        at=at,
        digest=digest,
        source=document.source,
    )


def slot(key: str) -> int:
    """The number below SLOTS of a document's key."""
    return int(key[:8], 16)


def manifest_point(key: Key, manifest: Manifest) -> Point:
    """The manifest as a point without a vector."""
    return Point(
        id=_uuid(key.id, manifest.version, "manifest"),
        payload={
            **_shared("manifest", key, manifest.version),
            **msgspec.to_builtins(manifest),
            "slot": slot(key.id),
        },
    )


def row_point(key: Key, version: int, origin: str, values: Mapping[str, Any]) -> Point:
    """The columns that a version was made of, for a later one that lacks some of them."""
    shared = _shared("row", key, version, origin)
    return Point(id=row_id(key, version), payload={**shared, "row": msgspec.json.encode(values).decode()})


def row_id(key: Key, version: int) -> str:
    """The id of that point."""
    return _uuid(key.id, version, "row")


def sentences_point(key: Key, version: int, passage: int, stored: Mapping[str, Any], origin: str = "") -> Point:
    """Where the sentences of a passage are and their vectors, which no search looks at."""
    return Point(
        id=sentences_id(key, version, passage), payload={**_shared("sentences", key, version, origin), **stored}
    )


def sentences_id(key: Key, version: int, passage: int) -> str:
    """The id of that point."""
    return _uuid(key.id, version, "sentences", passage)


def floor_point(origin: str, version: int) -> Point:
    """That a table was emptied: rows of it from before that version are none any more."""
    return Point(id=_uuid("floor", origin, version), payload={"kind": "floor", "origin": origin, "version": version})


def floors_where(origin: str) -> Where:
    """The filter for when a table was emptied."""
    return Where(equal={"kind": "floor", "origin": origin})


def emptied_where(origin: str, version: int) -> Where:
    """The filter for all that comes from a table's rows of before a version."""
    return Where(equal={"origin": origin}, below={"version": version})


def chunk_point(
    key: Key, version: int, document: Document, chunk: Chunk, vector: Vector, origin: str = "", *, words: bool = False
) -> Point:
    """A chunk with its vector, and with `words` its terms; it holds the text of its passage, not its own."""
    return Point(
        id=_uuid(key.id, version, chunk.number),
        vector=vector,
        terms=document_terms(embedding_text(document, chunk)) if words else None,
        payload={
            **({"terms_version": VERSION} if words else {}),
            **_shared("chunk", key, version, origin),
            "passage": chunk.passage,
            "start": chunk.passage_start,
            "end": chunk.passage_end,
            "text": document.text[chunk.passage_start : chunk.passage_end],
            "heading": chunk.heading,
            "meta": document.metadata,
        },
    )


def _shared(kind: str, key: Key, version: int, origin: str = "") -> dict[str, Any]:
    return {
        **({"origin": origin} if origin else {}),
        "kind": kind,
        "tenant": key.tenant,
        "collection": key.collection,
        "document": key.document,
        "key": key.id,
        "version": version,
    }


def embedding_text(document: Document, chunk: Chunk) -> str:
    """What is embedded for a chunk: the title, the headings above it, what it hangs on, and its own text."""
    own = document.text[chunk.start : chunk.end]
    lead = document.text[chunk.lead.start : chunk.lead.end]
    return embedded_text(document.title, chunk.heading, f"{lead}\n{own}" if lead else own)


def embedded_spans(document: Document, chunk: Chunk) -> list[tuple[int, int]]:
    """Where the sentences of a chunk are in what is embedded for it, which ends with the chunk's own text."""
    before = len(embedding_text(document, chunk)) - chunk.end
    return [(one.start + before, one.end + before) for one in chunk.sentences]


def embedded_text(title: str, heading: str, text: str) -> str:
    """The same of its parts."""
    return "\n".join(part for part in (title[:MAX_TITLE_CHARS], heading, text) if part)


def path(name: str) -> str:
    """Where the store finds a metadata field."""
    return f"meta.{name}" if _PLAIN_NAME.fullmatch(name) else f'meta."{name}"'


def chunks_where(tenant: str, collections: list[str], fields: Mapping[str, Scalar | list[Scalar]]) -> Where:
    """The filter of a search. The tenant goes in last: nothing a caller asks for can replace it."""
    asked = {path(name): value for name, value in fields.items()}
    return Where(equal={**asked, "kind": "chunk", "collection": list(collections), "tenant": tenant})


def corpus_where(tenant: str, collections: list[str]) -> Where:
    """Among which chunks it is counted how rare a word is: the searched collections of the tenant, whatever else is
    filtered, so that a question's words count the same with every filter."""
    return chunks_where(tenant, collections, {})


def manifests_where(keys: Iterable[str]) -> Where:
    """The filter for the manifests of these documents."""
    return Where(equal={"kind": "manifest", "key": sorted(keys)})


def source_where(tenant: str, collection: str, source: str, after: int, upto: int) -> Where:
    """The filter for the manifests of a source's documents whose slots are in a stretch, both ends excluded."""
    equal: dict[str, Any] = {"kind": "manifest", "tenant": tenant, "collection": collection, "source": source}
    return Where(equal=equal, unequal={"deleted": True}, above={"slot": after}, below={"slot": upto})


def older_where(key: str, version: int) -> Where:
    """The filter for everything of a document that is older than a version."""
    return Where(equal={"key": key}, below={"version": version})
