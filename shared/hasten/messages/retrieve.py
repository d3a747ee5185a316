"""Documents in, ranked passages out."""

import hashlib
from typing import Any, Literal

import msgspec

from hasten.messages.chat import Scalar
from hasten.messages.failure import Failure
from hasten.topics import Body, Reply, Topic


class Document(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A document to index or delete; tenant and collection are in the subject.

    `media_type` is text/markdown, text/plain or text/html. `metadata` can be filtered by; `tags` name the rows the
    document was made from (`prices:7`), so that a change of one evicts the answers that used it. The latest message of
    a document in the stream wins; its stream sequence is its version. `source` says where it was read from, in words of
    whoever brings it: by it those are found whose file is gone.
    """

    id: str
    op: Literal["upsert", "delete"] = "upsert"
    title: str = ""
    text: str = ""
    media_type: str = "text/markdown"
    url: str = ""
    metadata: dict[str, Scalar | list[Scalar]] = {}
    tags: list[str] = []
    source: str = ""

    @property
    def digest(self) -> str:
        """Tells whether two versions of a document say the same."""
        return hashlib.blake2b(msgspec.json.encode(self), digest_size=12).hexdigest()


class Ingested(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A document message has been applied: the next retrieval sees it. `error` says why it was refused instead."""

    collection: str
    id: str
    sequence: int
    op: str = "upsert"
    chunks: int = 0
    error: str | None = None


class Documents(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Asks which documents a collection of the tenant holds: those among `ids` (256 at most); without ids those from
    `source`, a page at a time: the next one is after the `next` of the last."""

    collection: str
    ids: list[str] = []
    source: str = ""
    after: int = 0


class DocumentInfo(Body, frozen=True, kw_only=True, omit_defaults=True):
    """The current version of a document, in how many chunks it lies, and the digest of what was sent."""

    id: str
    version: int
    digest: str = ""
    chunks: int = 0


class DocumentList(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """Documents that can be found, in no order. Everything in HASTEN_CHANGES up to `read_seq` had been applied, or
    refused, when they were read. `next` is there when more of the source follow."""

    documents: list[DocumentInfo] = []
    read_seq: int = 0
    next: int | None = None


class Retrieve(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for the passages nearest to `query` in the named collections of the tenant.

    `vector` saves the embedding of the query. `filter` is matched against document metadata (a list means any of).
    `knowledge` may also name look-ups of the operator's, which are asked at the same time. `rerank` asks for reranking
    or declines it; without it the operator's setting counts.
    """

    query: str
    knowledge: list[str]
    vector: bytes | None = None
    filter: dict[str, Scalar | list[Scalar]] = {}
    limit: int = 8
    rerank: bool | None = None


class Sentence(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A sentence of a passage: `text[start:end]` of the passage, and how near it is to the question (cosine)."""

    start: int
    end: int
    score: float = 0.0


class Passage(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a document, with its source and span (characters of the document's text). `score` orders the passages
    of one reply and says nothing beside those of another.

    `sentences` are those that have been compared with the question, in the order of the text; none where the store has
    no vectors of them.
    """

    id: str
    collection: str
    document: str
    text: str
    title: str = ""
    heading: str = ""
    url: str = ""
    score: float = 0.0
    version: int = 0
    start: int = 0
    end: int = 0
    tags: list[str] = []
    metadata: dict[str, Any] = {}
    sentences: list[Sentence] = []


class Reranking(Body, frozen=True, kw_only=True, omit_defaults=True):
    """What a cross-encoder has done to the order: it read the question with `scored` of `candidates` passages, the
    nearest first, in `took_ms`. `partial` says that the time was up before all were read; those that were not keep
    their order.

    `skipped` is why none was read: declined, no_model, deadline (too little of it is left), slow (not one passage is
    read within the time), busy, long_question (there is no room for a passage), failed, or nothing (fewer than two
    passages).
    """

    scored: int = 0
    candidates: int = 0
    partial: bool = False
    took_ms: float = 0.0
    skipped: str = ""


class Retrieved(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """Passages, best first. Everything in HASTEN_CHANGES up to `read_seq` had been applied when they were read.

    `missing` names collections that hold nothing and look-ups that found nothing; `partial` that passages were left out
    to stay within a message. `skipped` says which look-ups did not help and why: timeout, absent, failed, invalid,
    too_large or foreign. `tags` are what the whole reply depends on, beside the tags of its passages. What was made of
    it must not be kept when `volatile` names a look-up: no change event tells when that would answer otherwise.
    """

    passages: list[Passage] = []
    read_seq: int = 0
    missing: list[str] = []
    partial: bool = False
    reranking: Reranking | None = None
    skipped: dict[str, str] = {}
    tags: list[str] = []
    volatile: list[str] = []


DOCUMENT = Topic(
    name="document",
    template="hasten.v1.document.{tenant}.{collection}",
    request=Document,
    kind="stored",
    summary="Index or delete a document.",
)
INGESTED = Topic(
    name="ingested",
    template="hasten.v1.ingested.{tenant}",
    request=Ingested,
    kind="event",
    summary="A document message has been applied or refused.",
)
DOCUMENTS = Topic(
    name="documents",
    template="hasten.v1.documents.{tenant}",
    request=Documents,
    reply=DocumentList | Failure,
    queue="retriever",
    summary="List the documents of a collection, with their versions.",
)
RETRIEVE = Topic(
    name="retrieve",
    template="hasten.v1.retrieve.{tenant}",
    request=Retrieve,
    reply=Retrieved | Failure,
    queue="retriever",
    summary="Find the passages nearest to a question.",
)
TOPICS = (DOCUMENT, INGESTED, DOCUMENTS, RETRIEVE)
