"""Tells the shapes of change events apart and reads each into one form; pure, never raises.

What is not recognised is never taken for nothing: it says so (`fault`), and whoever evicts takes the whole table.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hasten.changes import cloudevents
from hasten.changes.keys import MAX_KEY_CHARS, decoded, header_key, payload, scalar, unwrapped
from hasten.changes.tags import ALL, MAX_TAGS, bounded
from hasten.messages.change import Change

UNREADABLE = "unreadable"
OPERATIONS = {"c": "create", "i": "create", "r": "snapshot", "u": "update", "d": "delete", "t": "truncate"}
"""Debezium's operations; `i` is Cassandra's insert. A row that comes without one is an `upsert`."""
_NOTHING: dict[str, Any] = {}
_ENVELOPE = {"before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction", "schema"}
_TRANSACTION = {"status", "id", "event_count", "data_collections"}
_RECORD = {"key", "value"}
_CHANGE = frozenset(Change.__struct_fields__)
_SOURCE = "__source_"
_FLATTENED = {"__op", "__deleted", "__table", "__schema", "__db", "__lsn", "__collection"}
"""What ExtractNewRecordState adds to a row, besides `__source_…`."""
_PLACED = _FLATTENED - {"__op", "__deleted"}
"""Those of them that Debezium has in its source block."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What a message says. `op` is empty when nothing has changed; `key` is the message's own, as JSON.

    `table` and `schema` may be empty. `tables` are those of a schema change. `tags` are evicted besides. `doubt` says
    that the row may be another one, so that the table of the subject goes as well. `fault` is why it cannot be read.
    """

    shape: str
    op: str = ""
    table: str = ""
    schema: str = ""
    key: Any = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    source: dict[str, Any] = _NOTHING
    tables: Sequence[tuple[str, str]] = ()
    tags: Sequence[str] = ()
    reason: str = ""
    doubt: bool = False
    fault: str = ""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The images of the row that are there, the older one first."""
        return [row for row in (self.before, self.after) if row is not None]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What the subject says: the table, and which columns the rules of that table name as its key."""

    table: str = ""
    schema: str = ""
    keys: Sequence[Sequence[str]] = ()


def recognised(place: Place, headers: Mapping[str, str], data: bytes) -> Event:
    """The event in a message."""
    key = header_key(headers) if headers else None
    attributes = cloudevents.in_headers(headers) if headers else None
    try:
        body = decoded(data) if data else None
    except ValueError as error:
        return _unknown(place, "unknown", f"the body is not JSON ({error})")
    if attributes is not None:
        return _cloud(place, key, attributes, body)
    return _read(place, key, body)


def _read(place: Place, key: Any, body: Any) -> Event:
    if body is None:
        return _tombstone(place, key)
    if type(body) is not dict:
        return _unknown(place, "unknown", "the body is not a JSON object")
    if (unlike := _no_row(body)) is not None:
        return unlike
    if "specversion" in body and ("type" in body or "source" in body):
        return _cloud(place, key, body, cloudevents.data(body))
    if body.keys() == _RECORD and type(body["key"]) is dict and _is_value(body["value"]):
        return _read(place, payload(body["key"]), payload(body["value"]))
    if "ddl" in body or "tableChanges" in body:
        return _redefined(place, body)
    if _is_envelope(body):
        return _envelope(place, key, body)
    if not _FLATTENED.isdisjoint(body) or _has_source(body):
        return _flattened(place, key, body)
    return _own_or_row(place, key, body)


def _unknown(place: Place, shape: str, fault: str) -> Event:
    return Event(shape=shape, op=UNREADABLE, table=place.table, schema=place.schema, fault=fault)


def _tombstone(place: Place, key: Any) -> Event:
    """A key without a value: the row is gone. Without a key, which the sink of Debezium Server never sends, any row."""
    return Event(shape="tombstone", op="delete", table=place.table, schema=place.schema, key=key)


def _no_row(body: dict[str, Any]) -> Event | None:
    """The events that change no row: heartbeats, transaction markers, and messages that an application logged."""
    if body.keys() == {"ts_ms"}:
        return Event(shape="heartbeat")
    if body.keys() >= _TRANSACTION and body["status"] in ("BEGIN", "END"):
        return Event(shape="transaction")
    if body.get("op") == "m" and type(body.get("source")) is dict and not body.get("before") and not body.get("after"):
        return Event(shape="message")
    return None


def _is_value(value: Any) -> bool:
    """Whether a record's value is one of ours to read, so that the two columns `key` and `value` are no row."""
    inner = payload(value)
    return inner is None or (type(inner) is dict and (_is_envelope(inner) or not _FLATTENED.isdisjoint(inner)))


def _is_envelope(body: dict[str, Any]) -> bool:
    images = "before" in body or "after" in body
    if type(body.get("source")) is dict:
        return images or "op" in body
    return images and ("op" in body or body.keys() <= _ENVELOPE)


def _envelope(place: Place, key: Any, body: dict[str, Any]) -> Event:
    """Debezium's own: `op` says what, `source` where, `before` and `after` which row."""
    given = body.get("source")
    source = given if type(given) is dict else _NOTHING
    table, schema = _named(source, place)
    code = body.get("op")
    op = "upsert" if code is None else OPERATIONS.get(code if type(code) is str else "", UNREADABLE)
    if op == UNREADABLE:
        return Event(
            shape="debezium", op=op, table=table, schema=schema, fault="the operation of the event is not known"
        )
    return Event(
        shape="debezium",
        op=op,
        table=table,
        schema=schema,
        key=key,
        before=_image(body.get("before")),
        after=_image(body.get("after")),
        source=source,
        doubt=code is None and not body.keys() <= _ENVELOPE,
    )


def _named(source: dict[str, Any], place: Place) -> tuple[str, str]:
    """Table and schema as the source block names them, else as the subject does."""
    table = source.get("table") or source.get("collection")
    if type(table) is not str or len(table) > MAX_KEY_CHARS:
        return place.table, place.schema
    schema = source.get("schema") or source.get("db") or source.get("keyspace")
    return table, schema if type(schema) is str and len(schema) <= MAX_KEY_CHARS else ""


def _image(value: Any) -> dict[str, Any] | None:
    """A row; MongoDB's is a text of JSON, whose `_id` is the key."""
    if type(value) is dict:
        return value
    if type(value) is str and value.startswith("{"):
        try:
            row = decoded(value)
        except ValueError:
            return None
        return {name: unwrapped(column) for name, column in row.items()} if type(row) is dict else None
    return None


def _has_source(body: dict[str, Any]) -> bool:
    return any(name.startswith(_SOURCE) for name in body)


def _flattened(place: Place, key: Any, body: dict[str, Any]) -> Event:
    """What ExtractNewRecordState leaves: the row, with what it was told to add in names that begin with `__`."""
    source = {_field(name): body[name] for name in body if name.startswith(_SOURCE) or name in _PLACED}
    row = {name: value for name, value in body.items() if not name.startswith("__")}
    table, schema = _named(source, place)
    code = body.get("__op")
    op = "upsert" if code is None else OPERATIONS.get(code if type(code) is str else "", UNREADABLE)
    if str(body.get("__deleted")).lower() == "true":
        op = "delete"
    fault = "the operation of the event is not known" if op == UNREADABLE else ""
    before, after = (row, None) if op == "delete" else (None, row)
    return Event(
        shape="flattened",
        op=op,
        table=table,
        schema=schema,
        key=key,
        before=before,
        after=after,
        source=source,
        fault=fault,
    )


def _field(name: str) -> str:
    return name.removeprefix(_SOURCE).removeprefix("__")


def _redefined(place: Place, body: dict[str, Any]) -> Event:
    """Every table of a schema change; Debezium quotes its names: `"public"."prices"`."""
    changes = body.get("tableChanges")
    named = [change.get("id") for change in changes if type(change) is dict] if type(changes) is list else []
    parts = [name.replace('"', "").split(".") for name in named if type(name) is str and name]
    tables = [(part[-1], part[-2] if len(part) > 1 else "") for part in parts]
    if len(tables) > MAX_TAGS or any(len(table) + len(schema) > MAX_KEY_CHARS for table, schema in tables):
        return Event(shape="schema", op="schema", tags=[ALL])
    return Event(shape="schema", op="schema", tables=tables or [(place.table, place.schema)])


def _own_or_row(place: Place, key: Any, body: dict[str, Any]) -> Event:
    """Our Change, or a row without anything around it.

    With fields that a Change does not have it is a row if a rule finds the table's key in it. Else it may be either, so
    the table of the subject goes as well.
    """
    ours = body.keys() <= _CHANGE
    if not ours and any(_holds(body, columns) for columns in place.keys):
        return _row(place, key, body)
    if type(body.get("table")) is str or type(body.get("tags")) is list:
        return _own(place, body, doubt=not ours)
    if key is not None or (scalar(body.get("id")) is not None and _flat(body)):
        return _row(place, key, body)
    return _unknown(
        place,
        "unknown",
        "the shape is not known, and there is no key in it: not `id`, nor the columns that a rule of the table names",
    )


def _holds(body: dict[str, Any], columns: Sequence[str]) -> bool:
    return bool(columns) and all(scalar(body.get(column)) is not None for column in columns)


def _flat(body: dict[str, Any]) -> bool:
    """Whether nothing is nested, as in a row; an envelope that we do not know would be."""
    return all(type(value) is not dict and type(value) is not list for value in body.values())


def _row(place: Place, key: Any, body: dict[str, Any]) -> Event:
    return Event(shape="row", op="upsert", table=place.table, schema=place.schema, key=key, after=body)


def _own(place: Place, body: dict[str, Any], *, doubt: bool) -> Event:
    try:
        change = msgspec.convert(body, Change)
    except msgspec.ValidationError:
        return _unknown(place, "change", "a field of the Change has another type than it should")
    if len(change.table or "") + len(change.db_schema or "") > MAX_KEY_CHARS:
        return _unknown(place, "change", "the name of a table is too long")
    if not change.table and not change.tags:
        return _unknown(place, "change", "the Change names neither a table nor tags")
    return Event(
        shape="change",
        op=change.op,
        table=change.table or "",
        schema=change.db_schema or "",
        key=change.key,
        tags=bounded(change.tags),
        reason=change.reason,
        doubt=doubt,
    )


def _cloud(place: Place, key: Any, attributes: Mapping[str, Any], body: Any) -> Event:
    """A CloudEvent: what is in it, with Debezium's attributes in the place of what the converter moved into them."""
    source = cloudevents.source(attributes)
    if source is not None and type(body) is dict and not _is_inner(body):
        body = {**body, "op": attributes.get(cloudevents.OPERATION), "source": source}
    elif body is None and (key is None or source is not None):
        table, schema = _named(source or _NOTHING, place)
        return _unknown(Place(table=table, schema=schema), "cloudevent", "the CloudEvent carries no JSON data")
    if type(body) is dict and "specversion" in body:
        return _unknown(place, "cloudevent", "the CloudEvent carries another CloudEvent")
    inner = _read(place, key, body)
    return msgspec.structs.replace(inner, shape=f"cloudevent {inner.shape}")


def _is_inner(body: dict[str, Any]) -> bool:
    """Whether the data is an event of its own, with its operation beside the images of the row."""
    return type(body.get("source")) is dict or "op" in body or not _FLATTENED.isdisjoint(body)
