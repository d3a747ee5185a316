"""Settings of the retriever."""

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is the folder of the embedded store; `store_url` is `embedded`, or the http(s) address of a Qdrant server
    (needed for more than one replica) with `store_api_key`. `indexed` names metadata fields that get an index of their
    own.

    `passage_chars` is the size up to which a chunk is returned with its neighbours of the same section. `max_limit` is
    the most passages one request may ask for. `limit` requests are handled at once, `waiting` more stand in line.

    `batch` messages are taken from the stream at a time and `parallel` documents of them worked on at once: together
    they bound the memory. `embed_batch` texts (64 at most) go into one request to the embedder: a question that comes
    meanwhile waits for no more than that. `embed_timeout_s` is the deadline of such a request. A document that the
    embedder or the store could not take is tried again after `retry_s`, doubled each time up to `retry_max_s`; one that
    fails for a reason of its own is given up after `attempts`. `max_chunks` is the most chunks of one document.
    `ack_wait_s` is how long a message that a replica took and is silent about waits for another one.
    `poll_s` is how often the retriever looks how far all replicas together have come.
    """

    data: str = ".hasten"
    store_url: str = "embedded"
    store_api_key: str = ""
    indexed: list[str] = []
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
    max_chunks: int = 5000
    ack_wait_s: float = 30.0
    poll_s: float = 0.2
