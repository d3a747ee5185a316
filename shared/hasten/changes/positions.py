"""Where in its database's log a change stands, and which of two changes of a row is the older one; pure."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec


class Position(msgspec.Struct, frozen=True, array_like=True):
    """`log` orders the changes of one `origin`; `at_ms` is when the change was committed, by the database's clock.

    The log alone does not do: after a restore from a backup it begins again at a lower number.
    """

    origin: tuple[str, ...]
    log: tuple[int | str, ...]
    at_ms: int

    def older_than(self, other: "Position") -> bool:
        """Whether this comes before the other for certain: by its place in the log, and not later by the clock."""
        return self.origin == other.origin and self.log < other.log and self.at_ms <= other.at_ms


def position(source: Mapping[str, Any]) -> Position | None:
    """The position in a Debezium source block, of PostgreSQL's log or MySQL's; None for what cannot be compared."""
    at_ms = _number(source.get("ts_ms"))
    if not at_ms:
        return None
    if lsn := _number(source.get("lsn")):
        log: tuple[int | str, ...] = (lsn,)
    elif type(file := source.get("file")) is str and (at := _number(source.get("pos"))):
        log = (len(file), file, at, _number(source.get("row")) or 0)
    else:
        return None
    connector, name, db = source.get("connector"), source.get("name"), source.get("db")
    return Position(_origin(str(connector), str(name), str(db)), log, at_ms)


@lru_cache(maxsize=256)
def _origin(*names: str) -> tuple[str, ...]:
    """One tuple for all changes of an origin: 50,000 of them are remembered."""
    return names


def _number(value: Any) -> int | None:
    if type(value) is int:
        return value
    return int(value) if type(value) is str and value.isascii() and value.isdecimal() and len(value) < 20 else None
