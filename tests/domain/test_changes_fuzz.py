"""Whatever arrives, reading goes on, and what cannot be read evicts the table that its subject names."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.changes import ChangeReader, DocumentRule, Rules, TableRule, explained
from hasten.changes.keys import UNCHANGED
from hasten.changes.shapes import OPERATIONS
from hasten.retriever.rows import steps

RULES = Rules(
    [
        TableRule(table="public.prices", key=["id"], tags=["p", "p:{id}", "sku:{sku}"], tenant="{tenant}"),
        TableRule(
            table="prices",
            key=["id", "tenant"],
            snapshot="ignore",
            document=DocumentRule(collection="help", tenant="{tenant}", id="{id}", text="{text}", metadata=["meta"]),
        ),
        TableRule(table="*", tags=["any"]),
    ]
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6)
)
MARKERS = st.sampled_from(["__debezium_unavailable_value", '{"$oid": "5f"}', '{"', '"x"', "acme", "true"])
VALUES = st.recursive(
    SCALARS | MARKERS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "$oid", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)
COLUMNS = ["id", "tenant", "sku", "text", "meta", "table", "tags", "key", "value", "op", "source", "schema", "payload"]
ROWS = st.dictionaries(st.sampled_from(COLUMNS), VALUES, max_size=5)
SOURCES = st.dictionaries(
    st.sampled_from(["table", "schema", "db", "collection", "lsn", "ts_ms", "file", "pos", "row", "connector"]),
    VALUES | st.sampled_from(["prices", "public"]),
    max_size=6,
)
OPS = st.sampled_from([*OPERATIONS, "m", "x"]) | VALUES
ENVELOPES = st.fixed_dictionaries(
    {}, optional={"op": OPS, "before": ROWS | VALUES, "after": ROWS | VALUES, "source": SOURCES}
)
FLAT = st.builds(
    lambda row, extra: {**row, **extra},
    ROWS,
    st.dictionaries(
        st.sampled_from(["__op", "__deleted", "__table", "__source_lsn", "__source_table"]), VALUES, max_size=3
    ),
)
INNER = ENVELOPES | FLAT | ROWS | VALUES
CLOUD = st.fixed_dictionaries(
    {"specversion": VALUES, "type": VALUES},
    optional={"data": INNER, "data_base64": VALUES, "iodebeziumop": OPS, "iodebeziumtable": VALUES},
)
RECORDS = st.fixed_dictionaries({"key": INNER, "value": INNER})
WRAPPED = st.fixed_dictionaries({"schema": VALUES, "payload": INNER | CLOUD})
BODIES = INNER | CLOUD | RECORDS | WRAPPED
HEADERS = st.dictionaries(
    st.sampled_from(["Hasten-Key", "ce-specversion", "ce-iodebeziumop", "ce-iodebeziumtable", "CE-type", "x"]),
    st.text(max_size=8) | VALUES.map(lambda value: msgspec.json.encode(value).decode()),
    max_size=3,
)
SUBJECTS = st.sampled_from(
    [
        "shop.public.prices",
        "hasten.v1.change.shop",
        "hasten.v1.change._tenant.acme",
        "hasten.v1.change._tenant.a b",
        "x",
    ]
)
NOTHING = {"heartbeat", "transaction", "message", "nobody", "document"}


@settings(max_examples=400)
@given(st.lists(st.tuples(SUBJECTS, HEADERS, BODIES), max_size=4))
def test_reading_goes_on_and_a_change_always_evicts_something(messages: list[tuple[str, dict[str, str], Any]]) -> None:
    reader = ChangeReader(RULES)
    for number, (subject, headers, body) in enumerate(messages):
        data = msgspec.json.encode(body)
        reading = reader.read(subject, headers, data)
        event = reading.event
        steps(subject, headers, data, number, RULES)
        if event.op and not reading.repeated and event.op != "snapshot":
            assert reading.evictions
        assert bool(event.op) == (event.shape.removeprefix("cloudevent ") not in NOTHING)
        for eviction in reading.evictions:
            assert eviction.tags
            assert not [tag for tag in eviction.tags if UNCHANGED in tag.partition(":")[2]]


@given(st.text(), HEADERS, st.binary())
def test_nothing_raises_whatever_the_bytes_are(subject: str, headers: dict[str, str], data: bytes) -> None:
    ChangeReader(RULES).read(subject, headers, data)
    steps(subject, headers, data, 1, RULES)


@given(HEADERS, BODIES)
def test_what_cannot_be_read_evicts_the_table_of_the_subject(headers: dict[str, str], body: Any) -> None:
    found = explained("shop.public.prices", headers, msgspec.json.encode(body), Rules())
    if found.event.fault and found.event.table == "prices":
        assert "prices" in found.causes["*"]
    if found.event.fault:
        assert found.event.op == "unreadable"
        assert found.causes
