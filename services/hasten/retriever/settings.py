"""Settings of the retriever."""

from typing import Annotated

import msgspec

from hasten.retriever.fusion import WEIGHT
from hasten.retriever.lookup import LookupSettings
from hasten.vectors.store import IndexKind

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is the folder of the embedded store; `store_url` is `embedded`, or the http(s) address of a Qdrant server
    (needed for more than one replica) with `store_api_key`. `indexed` names metadata fields that get an index of their
    own, for text, or says of each whether it is `keyword`, `integer`, `float` or `bool`.

    `hybrid` keeps the words of each chunk beside its vector and searches both; a Qdrant server has to be of version
    1.19. `lexical_weight` is how much words count, 0 (not at all) to 1 (alone), and `lexical_weights` says it for
    collections of their own (`help`, or `acme/help` for one tenant's).

    `parent_weight` is how much the chunks around a chunk count when it is searched, beside the chunk itself; it is part
    of what is stored, so a change needs a new ingestion. `passage_chars` is the size up to which a chunk is returned
    with its neighbours of the same section. `max_limit` is the most passages one request may ask for. `limit` requests
    are handled at once, `waiting` more stand in line.

    `batch` messages are taken from the stream at a time and `parallel` documents of them worked on at once: together
    they bound the memory. `embed_batch` texts (64 at most) go into one request to the embedder: a question that comes
    meanwhile waits for no more than that. `embed_timeout_s` is the deadline of such a request. A document that the
    embedder or the store could not take is tried again after `retry_s`, doubled each time up to `retry_max_s`; one that
    fails for a reason of its own is given up after `attempts`. `max_chunks` is the most chunks of one document.
    `ack_wait_s` is how long a message that a replica took and is silent about waits for another one.
    `poll_s` is how often the retriever looks how far all replicas together have come.

    `rerank` names a cross-encoder, `onnx:FOLDER` or `sentence-transformers:FOLDER`; empty, the default, is none. It
    reads the question with up to `rerank_candidates` passages again for at most `rerank_ms`, and has `rerank_weight` of
    the order. It reads `rerank_tokens` of a pair at once, on `rerank_threads` threads; `rerank_waiting` requests may
    wait for it, the others keep their order. `lookups` are tools that are asked like collections (`LookupSettings`).
    """

    data: str = ".hasten"
    store_url: str = "embedded"
    store_api_key: str = ""
    indexed: list[str] | dict[str, IndexKind] = []
    hybrid: bool = True
    lexical_weight: Share = WEIGHT
    lexical_weights: dict[str, Share] = {}
    parent_weight: float = 0.7
    passage_chars: int = 800
    max_limit: int = 200
    limit: int = 64
    waiting: int = 256
    batch: int = 32
    parallel: int = 8
    embed_batch: int = 64
    embed_timeout_s: float = 30.0
    retry_s: float = 0.5
    retry_max_s: float = 10.0
    attempts: int = 5
    max_chunks: int = 10_000
    ack_wait_s: float = 30.0
    poll_s: float = 0.2
    rerank: str = ""
    rerank_ms: float = 35.0
    rerank_candidates: int = 24
    rerank_weight: float = 0.5
    rerank_tokens: int = 256
    rerank_threads: int = 1
    rerank_waiting: int = 4
    lookups: dict[str, LookupSettings] = {}
