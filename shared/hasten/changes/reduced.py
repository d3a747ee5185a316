"""Makes of a change event that is too large for the bus one that says only which row it was; pure."""

from collections.abc import Mapping
from typing import Any, Literal

from hasten.changes.causes import NO_RULE, WHOLE, rows_of
from hasten.changes.reader import NO_RULES, explained
from hasten.changes.rules import Rules
from hasten.changes.shapes import Event
from hasten.messages.change import Change

_OPERATIONS: dict[str, Literal["create", "update", "delete", "truncate"]] = {
    "create": "create",
    "delete": "delete",
    "truncate": "truncate",
}


def reduced(subject: str, headers: Mapping[str, str], data: bytes, rules: Rules = NO_RULES) -> Change | None:
    """Table, key and operation of an event; None when it changes nothing.

    It evicts what the event would, or more: without the row's columns a tag that needs them is widened, and a key that
    cannot be told is that of the whole table. It makes no document, except that a delete deletes one.
    """
    event = explained(subject, headers, data, rules).event
    if not event.op:
        return None
    if event.shape.endswith("change"):
        return Change(table=event.table or None, db_schema=event.schema or None, key=event.key, tags=list(event.tags))
    key = None if event.op in WHOLE else _key(event, rules)
    return Change(table=event.table, db_schema=event.schema or None, key=key, op=_OPERATIONS.get(event.op, "update"))


def _key(event: Event, rules: Rules) -> dict[str, Any] | str | None:
    """The key of the one row that an event is about, None for several or none."""
    given = rules.find(event.table, event.schema)
    rows = rows_of(given[0] if given else NO_RULE, event)
    if len(rows) != 1 or len({rule.key for rule in given}) > 1:
        return None
    key, columns = rows[0]
    return dict(columns) or key
