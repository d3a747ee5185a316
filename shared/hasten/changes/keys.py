"""Reads the key of a row out of what pipelines send: scalars only, Debezium's placeholders never; pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

KEY_HEADERS = ("Hasten-Key", "Debezium-Key")
"""Headers that carry the key of the row as JSON: an object of its columns (bare or wrapped) or a value."""
UNCHANGED = "__debezium_unavailable_value"
"""What Debezium sends for a large column that an update did not touch."""
_UNCHANGED_BYTES = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
_EXTENDED = ("$oid", "$numberLong", "$numberInt", "$uuid")
"""How MongoDB's extended JSON wraps the values that are used as keys."""
MAX_KEY_CHARS = 1024
"""What is longer is no key to look a row up by: its table is evicted instead."""
_HUGE = 10**MAX_KEY_CHARS


def unchanged(value: Any) -> bool:
    """Whether a column's value is the placeholder for one that the source did not send: as text, bytes, list or map."""
    if isinstance(value, str):
        return value in (UNCHANGED, _UNCHANGED_BYTES)
    if isinstance(value, (list, dict)):
        return any(part in (UNCHANGED, _UNCHANGED_BYTES) for part in value)
    return False


def scalar(value: Any) -> str | None:
    """A value as it stands in a tag or an id; None for what is not one: null, true, fractions, objects, nothing."""
    kind = type(value)
    if kind is int:
        return str(value) if -_HUGE < value < _HUGE else None
    if kind is str:
        return value if value and len(value) <= MAX_KEY_CHARS and not unchanged(value) else None
    if kind is float and value.is_integer():
        return str(int(value))
    return None


def payload(value: Any) -> Any:
    """A value without Kafka Connect's schema around it."""
    return value["payload"] if type(value) is dict and value.keys() == {"schema", "payload"} else value


def decoded(data: bytes | str) -> Any:
    """JSON without its schema; raises ValueError for anything else.

    An envelope begins with its schema, which is several times as long as the row: it is skipped, not read (a third of
    the time for 4 kB, measured).
    """
    raw = data.encode(errors="replace") if isinstance(data, str) else data
    try:
        if raw.startswith(b'{"schema":'):
            try:
                return _wrapped.decode(raw).payload
            except msgspec.ValidationError:
                pass
        return payload(_plain.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(type(error).__name__) from None


class _Wrapped(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: Any


_wrapped = msgspec.json.Decoder(_Wrapped)
_plain = msgspec.json.Decoder()


def header_key(headers: Mapping[str, str]) -> Any:
    """The key in a header of the message; None when there is none that can be read."""
    for name in KEY_HEADERS:
        if given := headers.get(name):
            try:
                return decoded(given)
            except ValueError:
                return None
    return None


def joined(key: Mapping[str, Any], columns: Iterable[str]) -> str | None:
    """The values of these columns as they stand in a tag, in the order given; None when one of them cannot be told."""
    parts = [scalar(key.get(column)) for column in columns]
    whole = ",".join(part for part in parts if part is not None) if parts and None not in parts else None
    return whole if whole is not None and len(whole) <= MAX_KEY_CHARS else None


def default_keys(key: Any, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The keys of a row that no rule speaks of: those of the message's key, and the column `id` of both images.

    Of several columns the values are joined by commas, in the order of the columns' names.
    """
    found: dict[str, None] = {}
    if key is not None:
        for form in _forms(key):
            found[form] = None
    for row in rows:
        if (value := scalar(row.get("id"))) is not None:
            found[value] = None
    return list(found)


def _forms(key: Any) -> list[str]:
    """The key of a message as tags spell it; of MongoDB's, which is a text of JSON, also what that text says."""
    if not isinstance(key, dict):
        return [value] if (value := scalar(key)) is not None else []
    whole = joined(key, sorted(key))
    if whole is None:
        return []
    inner = extended(key["id"]) if key.keys() == {"id"} else None
    return [whole] if inner is None else [whole, inner]


def extended(value: Any) -> str | None:
    """What a text of MongoDB's extended JSON says ('{"$oid": "5f"}' is 5f), None for any other value."""
    if not isinstance(value, str) or value[:1] not in ("{", '"'):
        return None
    try:
        inner = _plain.decode(value.encode(errors="replace"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return scalar(unwrapped(inner))


def unwrapped(value: Any) -> Any:
    """A value out of MongoDB's extended JSON, which wraps ids and long numbers in an object of one field."""
    if type(value) is not dict or len(value) != 1:
        return value
    ((name, inner),) = value.items()
    return inner if name in _EXTENDED else value
