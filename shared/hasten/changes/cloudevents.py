"""Takes CloudEvents apart, structured or in headers, and reads the attributes of Debezium's converter; pure."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from hasten.changes.keys import decoded, payload

OPERATION = "iodebeziumop"
_DEBEZIUM = "iodebezium"
_HEADER = "ce-"
_NAMES = {"tsms": "ts_ms", "txid": "txId"}
"""Where an attribute, which has no capitals and no underscores, is spelt differently in Debezium's `source`."""


def in_headers(headers: Mapping[str, str]) -> dict[str, str] | None:
    """The attributes of a CloudEvent whose data is the body; None when the headers are none of one."""
    found = {name.lower().removeprefix(_HEADER): headers[name] for name in headers if name.lower().startswith(_HEADER)}
    return found if "specversion" in found else None


def data(event: Mapping[str, Any]) -> Any:
    """The data of a structured event, without its schema; None when there is none or it is not JSON."""
    given = event.get("data")
    if given is None and isinstance(encoded := event.get("data_base64"), str):
        try:
            given = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return None
    if not isinstance(given, (bytes, str)):
        return payload(given)
    try:
        return decoded(given)
    except ValueError:
        return None


def source(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Debezium's source block out of its attributes; None when another one made the event."""
    if OPERATION not in attributes:
        return None
    plain = {name.removeprefix(_DEBEZIUM): value for name, value in attributes.items() if name.startswith(_DEBEZIUM)}
    return {_NAMES.get(name, name): value for name, value in plain.items() if name != "op"}
