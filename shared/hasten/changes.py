"""Reads change events in the shapes pipelines send and says which tags of which tenant they evict; pure, never raises.

What cannot be read is not skipped: it evicts the table that its subject names, because an answer that is made anew is
cheaper than one that is wrong.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hasten.messages.change import CHANGE, TENANT_CHANGE, Change
from hasten.messages.retrieve import DOCUMENT, Document
from hasten.topics import BadName, checked

EVERYBODY = "*"
"""The tenant of a change that concerns all of them."""
ALL = "*"
"""The tag that every answer carries: what evicts everything."""
KEY_HEADERS = ("Hasten-Key", "Debezium-Key")
"""Headers that carry the key of the row as JSON: an object of its columns (bare or wrapped) or a value."""
UNREADABLE = "unreadable"
_OPERATIONS = {"c": "create", "r": "snapshot", "u": "update", "d": "delete", "t": "truncate"}
_MARKER = {"status", "id", "event_count", "data_collections"}


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """Which tags of a tenant (`*`: of all) are stale from now on. `reason` is the operation, or `unreadable`."""

    tenant: str
    tags: list[str]
    reason: str = ""


def evicted(subject: str, headers: Mapping[str, str], data: bytes) -> list[Eviction]:
    """What one message of HASTEN_CHANGES makes stale; nothing for heartbeats and transaction markers.

    A row evicts `<table>:<key>` and `<schema>.<table>:<key>`, a truncate or a key that cannot be told `<table>` and
    `<schema>.<table>`, a document `document:<collection>/<id>`, `collection:<collection>` and its own tags. The key is
    that of a key header and the column `id`; of several columns the values are joined by commas, in the order of the
    columns' names. Each row also evicts `<table>:*`, which only answers that depend on the whole table heed.
    """
    if subject.startswith(_before_tokens(DOCUMENT.template)):
        return _document(subject, data)
    tenant, place = _addressed(subject)
    if tenant is None:
        return []
    tags, reason = _change(place, headers, data)
    if tenant != EVERYBODY and reason == UNREADABLE and not place:
        tags = [ALL]
    return [Eviction(tenant=tenant, tags=reaching(tags), reason=reason)] if tags else []


def expanded(tags: Iterable[str]) -> list[str]:
    """The tags under which the changes of an answer's tags are found: each one, and the level above it.

    `prices:7` is stale when all of `prices` is, and `prices` when any row of it is (`prices:*`).
    """
    return list(dict.fromkeys(form for tag in tags for form in (tag, above(tag))))


def above(tag: str) -> str:
    """`prices` for `prices:7`, and `prices:*` for `prices`."""
    table, found, _ = tag.partition(":")
    return table if found else f"{tag}:*"


def reaching(tags: list[str]) -> list[str]:
    """The tags under which a change of these finds all answers: those, and `prices:*` for `prices:7`. It is the other
    side of `expanded`: an answer is stale when the two have a tag in common."""
    return list(dict.fromkeys([*tags, *(f"{above(tag)}:*" for tag in tags if ":" in tag)]))


def _before_tokens(template: str) -> str:
    return template.partition("{")[0]


def _addressed(subject: str) -> tuple[str | None, list[str]]:
    """The tenant, None when there can be no such tenant, and the tokens that say where the row is."""
    if subject.startswith(prefix := _before_tokens(TENANT_CHANGE.template)):
        tenant, *place = subject.removeprefix(prefix).split(".")
        try:
            return checked("tenant", tenant), place
        except BadName:
            return None, place
    return EVERYBODY, [token for token in subject.removeprefix(_before_tokens(CHANGE.template)).split(".") if token]


def _document(subject: str, data: bytes) -> list[Eviction]:
    try:
        where = DOCUMENT.parse(subject)
    except BadName:
        return []
    tenant, collection = where["tenant"], where["collection"]
    try:
        document = msgspec.json.decode(data, type=Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [Eviction(tenant=tenant, tags=[f"collection:{collection}"], reason=UNREADABLE)]
    tags = [f"document:{collection}/{document.id}", f"collection:{collection}", *document.tags]
    return [Eviction(tenant=tenant, tags=reaching(tags), reason=f"document {document.op}")]


def _change(place: list[str], headers: Mapping[str, str], data: bytes) -> tuple[list[str], str]:
    """The tags that a change of any shape evicts, and why."""
    inferred = _table(place[-1], place[-2] if len(place) > 2 else None) if place else []
    body = _decoded(data)
    if body is None:
        return _keyed(inferred, _header_keys(headers)) or inferred, "delete"
    if not isinstance(body, dict):
        return inferred, UNREADABLE
    if body.keys() == {"ts_ms"} or body.keys() >= _MARKER or (body.get("op") == "m" and "source" in body):
        return [], ""
    if "ddl" in body or "tableChanges" in body:
        return _redefined(body.get("tableChanges")) or inferred, "schema"
    if body.keys() & {"before", "after", "source"}:
        return _debezium(body, inferred, headers)
    return _own(body, inferred)


def _decoded(data: bytes) -> Any:
    """The JSON without its schema wrapper; None for a tombstone, the raw bytes when it is not JSON."""
    if not data:
        return None
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data
    return body["payload"] if isinstance(body, dict) and body.keys() == {"schema", "payload"} else body


def _own(body: dict[str, Any], inferred: list[str]) -> tuple[list[str], str]:
    """Our Change. With fields that we do not know it may be a bare row instead, so the inferred table goes as well."""
    try:
        change = msgspec.convert(body, Change)
    except msgspec.ValidationError:
        return inferred, UNREADABLE
    if not change.table and not change.tags:
        return inferred, UNREADABLE
    tags = list(change.tags)
    if change.table:
        forms = _table(change.table, change.db_schema)
        keys = [] if change.op == "truncate" else _keys(change.key)
        tags += _keyed(forms, keys) or forms
    if body.keys() - set(Change.__struct_fields__):
        tags += inferred
    return tags, change.reason or change.op


def _debezium(body: dict[str, Any], inferred: list[str], headers: Mapping[str, str]) -> tuple[list[str], str]:
    """A Debezium envelope: `source` says which table, the key header and the column `id` of both images which row."""
    given = body.get("source")
    source = given if isinstance(given, dict) else {}
    table = source.get("table") or source.get("collection")
    forms = _table(table, source.get("schema") or source.get("db")) if isinstance(table, str) else inferred
    reason = _OPERATIONS.get(str(body.get("op")), UNREADABLE)
    if reason in ("truncate", UNREADABLE):
        return forms, reason
    rows = [row for row in (body.get("before"), body.get("after")) if isinstance(row, dict)]
    keys = [*_header_keys(headers), *(key for row in rows for key in _one_key(row.get("id")))]
    return _keyed(forms, keys) or forms, reason


def _redefined(changes: Any) -> list[str]:
    """Every table of a schema change; Debezium quotes its names: `"public"."prices"`."""
    named = [change.get("id") for change in changes if isinstance(change, dict)] if isinstance(changes, list) else []
    parts = [name.replace('"', "").split(".") for name in named if isinstance(name, str) and name]
    return [tag for part in parts for tag in _table(part[-1], part[-2] if len(part) > 1 else None)]


def _table(table: str, schema: Any) -> list[str]:
    return [table, f"{schema}.{table}"] if schema and isinstance(schema, str) else [table]


def _keyed(forms: list[str], keys: list[str]) -> list[str]:
    return [f"{form}:{key}" for key in dict.fromkeys(keys) for form in forms]


def _header_keys(headers: Mapping[str, str]) -> list[str]:
    for name in KEY_HEADERS:
        if given := headers.get(name):
            return _keys(_decoded(given.encode(errors="replace")))
    return []


def _keys(value: Any) -> list[str]:
    """The key as it stands in a tag, in a list that is empty when it cannot be told."""
    if not isinstance(value, dict):
        return _one_key(value)
    parts = [_one_key(value[column]) for column in sorted(value)]
    return [",".join(part[0] for part in parts)] if parts and all(parts) else []


def _one_key(value: Any) -> list[str]:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return [str(value)] if value != "" else []
    return []
