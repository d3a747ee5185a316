"""Looking up, storing and invalidating answers."""

from typing import Any, Literal

from hasten.messages.chat import Usage
from hasten.messages.failure import Failure
from hasten.topics import Body, Reply, Topic


class Answer(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A whole answer, as it was streamed."""

    text: str
    finish_reason: str = "stop"
    model: str = ""
    usage: Usage = Usage()
    reasoning: str = ""
    tool_calls: list[dict[str, Any]] | None = None
    notes: list[dict[str, Any]] = []


class CacheLookup(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for an answer by key, or by meaning when `vector` is given.

    `key` identifies the request exactly and `partition` everything but the user's words (both from
    `hasten.fingerprint`, or any string of your own up to 128 characters; the tenant is added here). `text` is the last
    user turn: the guards compare it with that of the entry. `max_age_s` and `max_distance` are as in CachePolicy, and
    so are `tags`: an entry read before a change of one of them is stale for this caller. `collections` are those of the
    question's knowledge, whose thresholds count.

    `explain` asks for an account of the lookup in the reply, which costs two more searches; with the `parts` of the
    partition (from `hasten.fingerprint.parts_of`) it says what tells other partitions from this one. `counted` false
    leaves the lookup out of the hit rate and of its alarm, because nobody is given the answer.
    """

    key: str
    partition: str = ""
    text: str = ""
    vector: bytes | None = None
    max_age_s: float | None = None
    max_distance: float | None = None
    tags: list[str] = []
    explain: bool = False
    parts: dict[str, str] = {}
    collections: list[str] = []
    counted: bool = True


class Neighbour(Body, frozen=True, kw_only=True, omit_defaults=True):
    """An entry that an explained lookup looked at.

    `verdict` is hit, the reason of a miss, `removed` for one that is gone but that the replica remembers, or
    `partition` for an entry of another partition, where `differs` names the parts that are not the same. `asked_only`
    and `stored_only` are the words that only one side has; `confidence` is how likely the questions are the same, if no
    guard refused. `changed` maps the tags that have changed since the entry was read, at `read_seq`, to the sequence of
    the change. `sources` are its passages as `<id>@<version>`.
    """

    entry_id: str
    verdict: str
    text: str = ""
    similarity: float = 1.0
    guard: str | None = None
    confidence: float | None = None
    asked_only: list[str] = []
    stored_only: list[str] = []
    changed: dict[str, int] = {}
    differs: list[str] = []
    tags: list[str] = []
    sources: list[str] = []
    model: str = ""
    read_seq: int = 0
    age_s: float = 0.0
    lives_s: float = 0.0


class Explained(Body, frozen=True, kw_only=True, omit_defaults=True):
    """The account of a lookup. `exact` is the outcome by key and `by_key` the entry of the key, if there is one.

    `nearest` are the neighbours in this partition, best first; `elsewhere` those of the tenant's other partitions that
    are near enough. What another user has kept to themselves (`scope` user) is not among them.
    """

    exact: str
    by_key: Neighbour | None = None
    threshold: float | None = None
    nearest: list[Neighbour] = []
    elsewhere: list[Neighbour] = []


class CacheHit(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """An answer that is fresh, in the same tenant and partition, and (by meaning) past the guards with enough
    `confidence`.

    `lives_s` is how long it may still be served if nothing that it depends on changes. `stale` says that its time had
    run out, and that the operator allows to serve it while it is made anew.
    """

    kind: Literal["exact", "semantic"]
    entry_id: str
    answer: Answer
    age_s: float = 0.0
    lives_s: float = 0.0
    similarity: float = 1.0
    confidence: float | None = None
    tags: list[str] = []
    read_seq: int = 0
    explained: Explained | None = None
    stale: bool = False


class CacheMiss(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """No answer. `reason`: absent, expired, stale, threshold, guard, rejected, shadow, short, uncacheable, lease,
    disabled, alarm or unavailable.

    For a lookup by meaning the nearest entry, its `similarity` and the guard that refused it are named, or its
    `confidence`, which is below the `threshold`; in shadow mode it is the entry that would have answered. `read_seq` is
    what this replica had read of HASTEN_CHANGES: who makes the answer from now on may store it with that.
    """

    reason: str
    read_seq: int = 0
    nearest: str | None = None
    similarity: float | None = None
    threshold: float | None = None
    guard: str | None = None
    confidence: float | None = None
    explained: Explained | None = None


class CachePut(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Stores an answer. Without `vector` it can be found by key only.

    `tags` are what the answer depended on and `read_seq` the sequence of HASTEN_CHANGES its documents were read at:
    a later change to any of the tags makes the entry unservable. `ttl_s` is capped by the operator's. `parts` are
    short hashes of the parts of the partition, kept for explanations alone.
    """

    key: str
    answer: Answer
    partition: str = ""
    text: str = ""
    vector: bytes | None = None
    tags: list[str] = []
    read_seq: int = 0
    ttl_s: float | None = None
    user: str | None = None
    parts: dict[str, str] = {}


class Stored(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """The entry is in the store."""

    entry_id: str


class NotStored(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """The entry was refused. `reason`: stale, truncated, empty, tool_calls, ttl, unavailable."""

    reason: str


class SampleEvent(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A message as a pipeline sends it, to be tried: its `subject`, its `headers` (a key, for one) and its JSON `body`.

    Without a body it is a tombstone.
    """

    subject: str
    headers: dict[str, str] = {}
    body: Any = None


class Invalidate(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Removes every entry of the tenant that carries one of these; `everything` removes all of them.

    `documents` are `<collection>/<id>`, `entries` are entry ids, `models` are public model names. `reject` remembers
    the removed entries with the text that wrongly hit them, so that the pair never hits again. `request_id` says both
    at once: the request that was answered wrongly by meaning, within the time that the cache keeps such records.
    `event` asks, in a dry run only, what a change event would remove, and why.
    """

    tags: list[str] = []
    documents: list[str] = []
    entries: list[str] = []
    models: list[str] = []
    everything: bool = False
    reject: str | None = None
    request_id: str | None = None
    dry_run: bool = False
    reason: str = ""
    event: SampleEvent | None = None


class TagReason(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A tag that an event evicts, and why it does."""

    tag: str
    why: str = ""


class EventReading(Body, frozen=True, kw_only=True, omit_defaults=True):
    """What a change event was taken for: its `shape` and operation, the table, and the `rules` that speak of it.

    `tags` are those that it evicts for the tenant who asks. `fault` is why it could not be read, as a dead letter says.
    """

    shape: str
    op: str = ""
    table: str = ""
    rules: list[str] = []
    tags: list[TagReason] = []
    fault: str = ""


class EntrySummary(Body, frozen=True, kw_only=True, omit_defaults=True):
    """An entry without its answer: what a dry run lists."""

    entry_id: str
    text: str = ""
    tags: list[str] = []
    age_s: float = 0.0


class Invalidation(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """From this reply on no live replica serves what was invalidated.

    `sequence` is the change's place in HASTEN_CHANGES; `entries` how many were removed (or would be, with `listed`, in
    a dry run); `waited_ms` how long the barrier took. `event` is how the event of a dry run was read.
    """

    sequence: int = 0
    entries: int = 0
    listed: list[EntrySummary] = []
    waited_ms: float = 0.0
    event: EventReading | None = None


class Invalidated(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Entries are gone: which tags, how many, why, and the sequence of the change."""

    tags: list[str]
    entries: int = 0
    reason: str = ""
    sequence: int = 0


class Served(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A request was answered by meaning with this entry. `question` is the hash of the text that was asked
    (`hasten.fingerprint.question_hash`): enough to reject the pair, and no text."""

    entry_id: str
    question: str


CACHE_LOOKUP = Topic(
    name="cache.lookup",
    template="hasten.v1.cache.lookup.{tenant}",
    request=CacheLookup,
    reply=CacheHit | CacheMiss | Failure,
    queue="cache",
    summary="Find a stored answer by key or by meaning.",
)
CACHE_PUT = Topic(
    name="cache.put",
    template="hasten.v1.cache.put.{tenant}",
    request=CachePut,
    reply=Stored | NotStored | Failure,
    queue="cache",
    summary="Store a whole answer behind the version fence.",
)
INVALIDATE = Topic(
    name="invalidate",
    template="hasten.v1.invalidate.{tenant}",
    request=Invalidate,
    reply=Invalidation | Failure,
    queue="cache",
    summary="Remove answers by tag, document, entry, model, or all; replies when no replica serves them any more.",
)
INVALIDATED = Topic(
    name="invalidated",
    template="hasten.v1.invalidated.{tenant}",
    request=Invalidated,
    kind="event",
    summary="Answers that have been removed.",
)
SERVED = Topic(
    name="served",
    template="hasten.v1.served.{tenant}.{request_id}",
    request=Served,
    kind="event",
    summary="An answer was found by meaning; the stream HASTEN_SERVED keeps it for a time, so that it can be rejected.",
)
TOPICS = (CACHE_LOOKUP, CACHE_PUT, INVALIDATE, INVALIDATED, SERVED)
