"""Turns a Where into Qdrant's filter; the engine in process and the client of a server use nearly the same words."""

from collections.abc import Callable
from typing import Any

import msgspec

from hasten.vectors.store import Scalar, Where


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """Where the filter classes are, what the range is called, and how a bool has to be wrapped to stay one."""

    classes: Any
    range: Any
    boolean: Callable[[bool], Any] = bool


def to_filter(where: Where | None, dialect: Dialect) -> Any:
    """The filter in the classes of the dialect; None when everything matches. An empty any-of list matches nothing."""
    if where is None or where == Where():
        return None
    must = [_equal(key, wanted, dialect) for key, wanted in where.equal.items()]
    must += [_range(key, dialect, gt=where.above.get(key), lt=where.below.get(key)) for key in _bounded(where)]
    must_not = [_equal(key, unwanted, dialect) for key, unwanted in where.unequal.items()]
    return dialect.classes.Filter(must=must or None, must_not=must_not or None)


def _bounded(where: Where) -> list[str]:
    return sorted(where.above.keys() | where.below.keys())


def _equal(key: str, wanted: Scalar | list[Scalar], dialect: Dialect) -> Any:
    if not isinstance(wanted, list):
        return _one(key, wanted, dialect)
    if {type(value) for value in wanted} in ({str}, {int}, set()):
        return dialect.classes.FieldCondition(key=key, match=dialect.classes.MatchAny(any=wanted))
    return dialect.classes.Filter(should=[_one(key, value, dialect) for value in wanted])


def _one(key: str, value: Scalar, dialect: Dialect) -> Any:
    if isinstance(value, float):
        return _range(key, dialect, gte=value, lte=value)
    wrapped = dialect.boolean(value) if isinstance(value, bool) else value
    return dialect.classes.FieldCondition(key=key, match=dialect.classes.MatchValue(value=wrapped))


def _range(key: str, dialect: Dialect, **bounds: float | None) -> Any:
    return dialect.classes.FieldCondition(key=key, range=dialect.range(**bounds))
