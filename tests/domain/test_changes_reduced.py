"""An event that is too large is sent without its row, and evicts no less."""

from typing import Any

import msgspec
import pytest

from hasten.changes import Rules, TableRule, evicted, expanded
from hasten.changes.reduced import reduced
from hasten.messages.change import CHANGE, Change

SUBJECT = "shop.public.prices"
RULES = Rules([TableRule(table="public.prices", key=["id"], tenant="acme", tags=["p:{id}", "kind:{kind}", "all"])])
BIG = "x" * 10_000


def event(op: str, before: Any = None, after: Any = None) -> bytes:
    source = {"schema": "public", "table": "prices"}
    return msgspec.json.encode({"op": op, "before": before, "after": after, "source": source})


EVENTS = [
    event("c", None, {"id": 7, "kind": "a", "body": BIG}),
    event("u", None, {"id": 7, "kind": "a", "body": BIG}),
    event("u", {"id": 6}, {"id": 7, "body": BIG}),
    event("u", None, {"sku": 7, "body": BIG}),
    event("d", {"id": 7, "kind": None}),
    event("t"),
    msgspec.json.encode({"id": 7, "kind": "a", "body": BIG}),
    msgspec.json.encode({"table": "prices", "db_schema": "public", "key": 7, "tags": ["t"]}),
    b"{" + BIG.encode(),
]


@pytest.mark.parametrize("rules", [Rules(), RULES])
@pytest.mark.parametrize("headers", [{}, {"Hasten-Key": '{"id": 7}'}])
@pytest.mark.parametrize("data", EVENTS)
def test_it_evicts_no_less_than_the_event(data: bytes, headers: dict[str, str], rules: Rules) -> None:
    change = reduced(SUBJECT, headers, data, rules)
    assert change is not None
    small = msgspec.json.encode(change)
    assert len(small) < 200
    whole = evicted(SUBJECT, headers, data, rules)
    part = {one.tenant: set(one.tags) for one in evicted(CHANGE.subject(source="app"), {}, small, rules)}
    for eviction in whole:
        for tag in eviction.tags:
            if not tag.endswith(":*"):
                assert set(expanded([tag])) & part[eviction.tenant], tag


def test_it_says_what_can_be_said() -> None:
    assert reduced(SUBJECT, {}, EVENTS[4], RULES) == Change(
        table="prices", db_schema="public", key={"id": "7"}, op="delete"
    )
    assert reduced(SUBJECT, {}, EVENTS[1]) == Change(table="prices", db_schema="public", key="7")
    assert reduced(SUBJECT, {}, b'{"ts_ms": 1}') is None
