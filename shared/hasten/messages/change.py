"""What pipelines say when rows change, and the stream that orders everything that can make an answer stale."""

from typing import Any, Literal

from hasten.topics import Body, Topic

STREAM = "HASTEN_CHANGES"
REPLICAS = "hasten_replicas"
"""The bucket of those that serve from a view of the stream."""
DEAD_STREAM = "HASTEN_DEAD"
SWEPT = "Hasten-Swept"
"""The header of a change whose sender deletes the entries itself."""


class Change(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Our own form of a change event; Debezium's shapes are understood on the same subjects.

    `table` and `key` make the default tags `<table>:<key>`, `<schema>.<table>:<key>` and, without a key or for a
    truncate, `<table>`; `tags` are evicted besides. Columns of a composite `key` may be in any order.
    """

    table: str | None = None
    key: str | int | dict[str, Any] | None = None
    db_schema: str | None = None
    op: Literal["create", "update", "delete", "truncate"] = "update"
    tags: list[str] = []
    reason: str = ""


CHANGE = Topic(
    name="change",
    template="hasten.v1.change.{source}",
    request=Change,
    kind="stored",
    summary="A row changed, for every tenant. Debezium subjects with more tokens are taken as they are.",
)
TENANT_CHANGE = Topic(
    name="tenant_change",
    template="hasten.v1.change._tenant.{tenant}",
    request=Change,
    kind="stored",
    summary="A change that concerns one tenant: what an invalidation writes.",
)


class Applied(Body, frozen=True, kw_only=True, omit_defaults=True):
    """This replica heeds every change of HASTEN_CHANGES up to `sequence`."""

    sequence: int


APPLIED = Topic(
    name="applied",
    template="hasten.v1.applied.{replica}",
    request=Applied,
    kind="event",
    summary="How far a replica that serves cached answers has read the changes; said after each one and at intervals.",
)


class DeadLetter(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A message of HASTEN_CHANGES that could not be used as it was meant: which one and why, and nothing that it holds.

    `sequence` and `subject` find it in the stream, `size` is its bytes. `concerns` says what could not be done: `tags`
    (it evicted its whole table instead) or `document` (the row's document stayed as it was).
    """

    sequence: int
    subject: str
    reason: str
    size: int = 0
    concerns: Literal["tags", "document"] = "tags"


DEAD_LETTER = Topic(
    name="dead_letter",
    template="hasten.v1.dead.{source}",
    request=DeadLetter,
    kind="stored",
    summary="A change event that could not be read, or made no document; kept for a while in a stream of its own.",
)
TOPICS = (CHANGE, TENANT_CHANGE, APPLIED, DEAD_LETTER)
