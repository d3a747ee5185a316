"""Pairs of questions that an operator found to be different: kept in a KV bucket, heeded by every replica for ever.

A rejection travels as a tag of the change that removes the entry, so a replica knows it as soon as it knows that the
entry is gone; the bucket is read once, at the start, after the changes have been.
"""

import re
from collections.abc import Iterable

import nats.errors
from nats.js.errors import NoStreamResponseError
from nats.js.kv import KeyValue

from hasten.buckets import key_names
from hasten.bus import Bus
from hasten.cache.domain import Entry, pair_marks
from hasten.changes import Eviction
from hasten.fingerprint import question_hash
from hasten.journal import Entry as Change
from hasten.messages.failure import Failed

BUCKET = "hasten_rejected"
_TAG = "reject:"
_MARK = re.compile(f"{_TAG}([0-9a-f]{{40}})")


class Rejections:
    """The rejected pairs, as hashes in memory and in the bucket; their texts are kept nowhere."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._bucket: KeyValue | None = None
        self._known: set[str] = set()

    async def start(self) -> None:
        """Reads all that are in the bucket; raises Failed(unavailable)."""
        try:
            await self._open()
            self._known.update(await key_names(self._bus, BUCKET))
        except (nats.errors.Error, TimeoutError) as error:
            raise Failed("unavailable", f"the bucket {BUCKET} cannot be read ({type(error).__name__})") from None

    def hear(self, _: Change, eviction: Eviction) -> None:
        """Takes in the rejections among the tags of a change; the rows of a table `reject` are none."""
        self._known.update(found[1] for tag in eviction.tags if (found := _MARK.fullmatch(tag)))

    def blocks(self, entry: Entry, asked: str) -> bool:
        """Whether this entry must not answer this question."""
        if not self._known:
            return False
        stored, given = question_hash(entry.text), question_hash(asked)
        return not self._known.isdisjoint(pair_marks(entry.tenant, entry.id, stored, given))

    async def remember(self, marks: Iterable[str]) -> list[str]:
        """Stores the marks of a pair for good and returns the tags that tell every replica; raises Failed."""
        made = list(marks)
        try:
            try:
                await self._put(made)
            except NoStreamResponseError:
                await self._open()
                await self._put([*self._known, *made])  # whoever deleted the bucket has not taken them back
        except (nats.errors.Error, TimeoutError) as error:
            raise Failed("unavailable", f"the rejection could not be stored ({type(error).__name__})") from None
        return [f"{_TAG}{mark}" for mark in made]

    async def _open(self) -> None:
        self._bucket = await self._bus.js.create_key_value(bucket=BUCKET)

    async def _put(self, marks: Iterable[str]) -> None:
        if self._bucket is None:
            raise nats.errors.ConnectionClosedError
        for mark in marks:
            await self._bucket.put(mark, b"1")
