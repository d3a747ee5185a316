"""Which rows an event is about, as the rule of their table tells them apart; pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from hasten.changes.keys import scalar
from hasten.changes.shapes import Event

Identity = dict[str, str]
"""The key columns of a row and their values as tags spell them."""


def identities(event: Event, columns: Sequence[str]) -> list[Identity]:
    """The rows of an event by these key columns, each once; empty when it cannot be told, and all may be meant.

    The message's own key comes first, then `before`, then `after`. A key that lacks one of the columns says that the
    column is none of the source's key: then its old value is known only from a whole `before`.
    """
    found: list[Identity] = []
    given = _of_key(event.key, columns)
    if given is not None:
        found.append(given)
    before = _of(event.before, columns)
    after = _of(event.after, columns)
    if given is None and isinstance(event.key, dict) and before is None and event.op != "create":
        return []
    if given is None and event.after is not None and after is None:
        return []
    for one in (before, after):
        if one is not None and one not in found:
            found.append(one)
    return found


def _of_key(key: Any, columns: Sequence[str]) -> Identity | None:
    if isinstance(key, dict):
        return _of(key, columns)
    value = scalar(key)
    return {columns[0]: value} if value is not None and len(columns) == 1 else None


def _of(row: Mapping[str, Any] | None, columns: Sequence[str]) -> Identity | None:
    if row is None:
        return None
    found: Identity = {}
    for column in columns:
        value = scalar(row.get(column))
        if value is None:
            return None
        found[column] = value
    return found


def tag_key(identity: Identity) -> str:
    """The key as it stands in a tag: the values in the order of the columns' names, joined by commas."""
    return ",".join(identity[column] for column in sorted(identity))
