"""Settings of the cache."""

from typing import Annotated, Literal

import msgspec

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is the folder of the embedded store; `store_url` is `embedded`, or the http(s) address of a Qdrant server
    (needed for more than one replica) with `store_api_key`. `dim` is the width of the vectors, that of the
    embedder's model.

    `semantic` off leaves exact hits only. `threshold` is the least confidence (0 to 1) that two questions are the same
    for a hit by meaning, which must pass the guards besides; `hasten cache calibrate` finds it for an error bound.
    `thresholds` has those of single collections, by name, and of tenants, as `tenant:NAME`; the strictest of what a
    request names counts, and 1 leaves exact hits only. A text of less than `min_words` words or more than `max_chars`
    characters is found by key only, and `candidates` neighbours are looked at.

    `opinion` names a model that is asked about questions which are near a stored one, and which no guard but only the
    threshold refuses: `onnx:FOLDER` or `sentence-transformers:FOLDER`, empty for none (needs the extra `opinion`).
    Where `thresholds` is stricter it is not asked.
    `opinion_mode` is `async` (this question is a miss, and the verdict counts from the next time on) or `inline` (the
    lookup waits up to `opinion_ms` for the verdict, which otherwise counts from the next time on). `opinion_threshold`
    is the least score, both ways, that makes two questions the same, and `opinion_floor` the least cosine similarity
    of a pair that is judged. `opinion_waiting` pairs stand in line, and `opinion_threads` are used for one.

    `shadow` judges and counts hits by meaning (`shadow` among the misses) and serves none; `shadow_collections` does so
    for answers from these collections only. The alarm compares the hit rate of a replica's last `alarm_window` lookups
    by meaning that came to a verdict with that of about `alarm_memory` before them: it trips when it is higher by more
    than `alarm_jump` (0.2 is 20 points; 1 switches it off) and clears at half of that. It warns in the log, in the
    metric `hasten_cache_hit_rate_alarm` and in `hasten status`; with `alarm_stops` there are no hits by meaning
    meanwhile.

    `ttl_s` is how long an answer lives that asks for nothing else, `max_ttl_s` the longest it may. `stale_s` is how
    long after its end an answer, if nothing that it depends on has changed, is still served to who asks the same again
    while a new one is made (0: not at all). `store_tool_calls` keeps answers that call tools. `max_entries` bounds the
    store: the least recently used go first. `hot_entries` and `hot_bytes` bound what a replica keeps in memory, which
    it compares with the store after `hot_s`. `max_tags` is the most tags of an answer or an invalidation.

    `reject_s` is how long a wrong hit can be rejected by the id of its request.

    `store_timeout_s` is how long the store may take before a lookup is a miss, and how long an invalidation waits for
    its deletions once nobody serves what it names. Entries that a few changes made stale are deleted at once, those of
    a burst every `sweep_s` at the latest; expired and surplus ones every `tidy_s`. `limit` requests of a kind are
    handled at once, `waiting` more stand in line.
    """

    data: str = ".hasten"
    store_url: str = "embedded"
    store_api_key: str = ""
    dim: int = 384
    semantic: bool = True
    threshold: Share = 0.9
    thresholds: dict[str, Share] = {}
    min_words: int = 4
    max_chars: int = 2000
    candidates: int = 5
    shadow: bool = False
    shadow_collections: list[str] = []
    alarm_window: int = 200
    alarm_memory: int = 4000
    alarm_jump: float = 0.2
    alarm_stops: bool = False
    opinion: str = ""
    opinion_mode: Literal["async", "inline"] = "async"
    opinion_ms: float = 150.0
    opinion_threshold: float = 0.9
    opinion_floor: float = 0.7
    opinion_waiting: int = 64
    opinion_threads: int = 1
    ttl_s: float = 86_400.0
    max_ttl_s: float = 604_800.0
    stale_s: float = 0.0
    store_tool_calls: bool = False
    max_entries: int = 100_000
    hot_entries: int = 4096
    hot_bytes: int = 67_108_864
    hot_s: float = 10.0
    max_tags: int = 512
    reject_s: float = 86_400.0
    store_timeout_s: float = 1.0
    sweep_s: float = 1.0
    tidy_s: float = 30.0
    limit: int = 256
    waiting: int = 1024
