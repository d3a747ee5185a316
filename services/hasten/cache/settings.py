"""Settings of the cache."""

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is the folder of the embedded store; `store_url` is `embedded`, or the http(s) address of a Qdrant server
    (needed for more than one replica) with `store_api_key`. `dim` is the width of the vectors, that of the
    embedder's model.

    `semantic` off leaves exact hits only. `threshold` is the least cosine similarity of a hit by meaning, which must
    pass the guards besides; a text of less than `min_words` words or more than `max_chars` characters is found by key
    only, and `candidates` neighbours are looked at.

    `ttl_s` is how long an answer lives that asks for nothing else, `max_ttl_s` the longest it may. `store_tool_calls`
    keeps answers that call tools. `max_entries` bounds the store: the least recently used go first. `hot_entries` and
    `hot_bytes` bound what a replica keeps in memory, which it compares with the store after `hot_s`. `max_tags` is the
    most tags of an answer or an invalidation.

    `store_timeout_s` is how long the store may take before a lookup is a miss, and how long an invalidation waits for
    its deletions once nobody serves what it names. `sweep_s` is how often entries made
    stale by changes are deleted, `tidy_s` how often expired and surplus ones are. `limit` requests of a kind are
    handled at once, `waiting` more stand in line.
    """

    data: str = ".hasten"
    store_url: str = "embedded"
    store_api_key: str = ""
    dim: int = 384
    semantic: bool = True
    threshold: float = 0.85
    min_words: int = 4
    max_chars: int = 2000
    candidates: int = 5
    ttl_s: float = 86_400.0
    max_ttl_s: float = 604_800.0
    store_tool_calls: bool = False
    max_entries: int = 100_000
    hot_entries: int = 4096
    hot_bytes: int = 67_108_864
    hot_s: float = 10.0
    max_tags: int = 512
    store_timeout_s: float = 1.0
    sweep_s: float = 1.0
    tidy_s: float = 30.0
    limit: int = 256
    waiting: int = 1024
