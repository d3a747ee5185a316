"""Every shape that pipelines really send: what it is taken for, and what it evicts."""

import base64
from typing import Any

import msgspec
import pytest

from hasten.changes import Rules, TableRule, evicted, explained

ROW = {"id": 7, "title": "Blue shoe", "price": "3.50"}
SOURCE = {
    "connector": "postgresql",
    "name": "shop",
    "db": "shop",
    "schema": "public",
    "table": "prices",
    "lsn": 24023128,
}
SINK = "shop.public.prices"
KEY = {"Hasten-Key": '{"id": 7}'}
SEVEN = ["prices:7", "public.prices:7", "prices:*", "public.prices:*"]
TABLE = ["prices", "public.prices"]
MARKER = "__debezium_unavailable_value"
BYTES = base64.b64encode(MARKER.encode()).decode()
CLOUD = {
    "id": "name:shop;lsn:29274832;txId:565",
    "source": "/debezium/postgresql/shop",
    "specversion": "1.0",
    "type": "io.debezium.connector.postgresql.DataChangeEvent",
    "datacontenttype": "application/json",
    "iodebeziumop": "u",
    "iodebeziumconnector": "postgresql",
    "iodebeziumtsms": "1578923739738",
    "iodebeziumdb": "shop",
    "iodebeziumschema": "public",
    "iodebeziumtable": "prices",
    "iodebeziumlsn": "29274832",
}


def envelope(op: str | None, before: Any = None, after: Any = None, source: Any = SOURCE) -> dict[str, Any]:
    made = {"before": before, "after": after, "source": source, "ts_ms": 1, "transaction": None}
    return made if op is None else {**made, "op": op}


def wrapped(body: Any) -> dict[str, Any]:
    return {"schema": {"type": "struct", "fields": [{"field": "before"}]}, "payload": body}


def raw(body: Any) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


SHAPES: list[tuple[str, Any, dict[str, str], str, str, list[str]]] = [
    ("a create", envelope("c", None, ROW), {}, "debezium", "create", SEVEN),
    ("a snapshot read", envelope("r", None, ROW), {}, "debezium", "snapshot", SEVEN),
    ("an update without its old image", envelope("u", None, ROW), {}, "debezium", "update", SEVEN),
    ("a delete that knows its key only", envelope("d", {"id": 7, "title": None}), {}, "debezium", "delete", SEVEN),
    ("a delete that knows nothing", envelope("d"), KEY, "debezium", "delete", SEVEN),
    ("a delete that knows nothing and has no key", envelope("d"), {}, "debezium", "delete", TABLE),
    ("a truncate", envelope("t"), {}, "debezium", "truncate", TABLE),
    ("an envelope without its operation", envelope(None, None, ROW), {}, "debezium", "upsert", SEVEN),
    ("an envelope in its schema", wrapped(envelope("u", None, ROW)), {}, "debezium", "update", SEVEN),
    ("a schema with a field more", {**wrapped(ROW), "x": 1}, {}, "unknown", "unreadable", TABLE),
    ("an operation of tomorrow", envelope("x", None, ROW), {}, "debezium", "unreadable", TABLE),
    ("Cassandra's insert", envelope("i", None, {"id": {"value": 7, "set": True}}), {}, "debezium", "create", TABLE),
    ("a flattened row", {**ROW, "__op": "u", "__table": "prices"}, {}, "flattened", "update", SEVEN[::2]),
    (
        "a flattened row with its source",
        {**ROW, "__source_table": "prices", "__source_schema": "public", "__source_lsn": 5},
        {},
        "flattened",
        "upsert",
        SEVEN,
    ),
    ("a rewritten delete", {**ROW, "__deleted": "true"}, {}, "flattened", "delete", SEVEN),
    ("a rewritten delete in a schema", wrapped({"id": 7, "__deleted": "true"}), {}, "flattened", "delete", SEVEN),
    ("what was not deleted", {**ROW, "__deleted": "false", "__op": "r"}, {}, "flattened", "snapshot", SEVEN),
    ("a bare row", ROW, {}, "row", "upsert", SEVEN),
    ("a bare row in a schema", wrapped(ROW), {}, "row", "upsert", SEVEN),
    ("a bare row whose key is its message's", {"sku": "A", "tags": None}, KEY, "row", "upsert", SEVEN),
    ("a key without a row", {"id": 7}, {}, "row", "upsert", SEVEN),
    ("a tombstone with a key", b"", KEY, "tombstone", "delete", SEVEN),
    ("a tombstone in a schema", {"schema": None, "payload": None}, KEY, "tombstone", "delete", SEVEN),
    ("a tombstone without a key", b"", {}, "tombstone", "delete", TABLE),
    ("Debezium's flattened delete without its key", b"null", {}, "tombstone", "delete", TABLE),
    ("a record with its key", {"key": {"id": 7}, "value": envelope("d")}, {}, "debezium", "delete", SEVEN),
    ("a record that is a tombstone", {"key": wrapped({"id": 7}), "value": None}, {}, "tombstone", "delete", SEVEN),
    ("a row of a table of keys and values", {"key": {"id": 7}, "value": {"a": 1}}, {}, "unknown", "unreadable", TABLE),
    ("a heartbeat", {"ts_ms": 1}, {"Hasten-Key": '{"serverName": "shop"}'}, "heartbeat", "", []),
    ("a heartbeat in a schema", wrapped({"ts_ms": 1}), {}, "heartbeat", "", []),
    (
        "the end of a transaction of nothing",
        {"status": "END", "id": "571:1", "event_count": 0, "data_collections": []},
        {},
        "transaction",
        "",
        [],
    ),
    (
        "a row that looks like a transaction",
        {"status": "OPEN", "id": 7, "event_count": 0, "data_collections": "x"},
        {},
        "row",
        "upsert",
        SEVEN,
    ),
    (
        "a message that an application logged",
        {"op": "m", "source": SOURCE, "message": {"prefix": "x", "content": "eA=="}},
        {},
        "message",
        "",
        [],
    ),
    ("a row with a column called op", {"id": 7, "op": "m", "source": "web"}, {}, "row", "upsert", SEVEN),
    ("a row with columns called like images", {**ROW, "before": "x", "after": "y"}, {}, "row", "upsert", SEVEN),
    ("a schema change", {"source": SOURCE, "ddl": "ALTER TABLE prices"}, {}, "schema", "schema", TABLE),
    ("a placeholder in a key", envelope("u", None, {"id": MARKER}), {}, "debezium", "update", TABLE),
    ("a placeholder as bytes in a key", envelope("u", None, {"id": BYTES}), {}, "debezium", "update", TABLE),
    ("a placeholder beside the key", envelope("u", None, {**ROW, "body": MARKER}), {}, "debezium", "update", SEVEN),
    ("a CloudEvent of Debezium", {**CLOUD, "data": {"after": ROW}}, {}, "cloudevent debezium", "update", SEVEN),
    (
        "a CloudEvent of Debezium with schemas",
        {**CLOUD, "data": wrapped({"before": None, "after": ROW})},
        {},
        "cloudevent debezium",
        "update",
        SEVEN,
    ),
    (
        "a CloudEvent with an envelope",
        {"specversion": "1.0", "type": "t", "data": envelope("u", None, ROW)},
        {},
        "cloudevent debezium",
        "update",
        SEVEN,
    ),
    (
        "a CloudEvent with our Change",
        {"specversion": "1.0", "type": "t", "data": {"table": "prices", "key": 7}},
        {},
        "cloudevent change",
        "update",
        SEVEN[::2],
    ),
    (
        "a CloudEvent with a row",
        {"specversion": "1.0", "type": "t", "data": ROW},
        {},
        "cloudevent row",
        "upsert",
        SEVEN,
    ),
    (
        "a CloudEvent with bytes",
        {"specversion": "1.0", "type": "t", "data_base64": base64.b64encode(raw(ROW)).decode()},
        {},
        "cloudevent row",
        "upsert",
        SEVEN,
    ),
    ("a CloudEvent of nothing", {"specversion": "1.0", "type": "t"}, {}, "cloudevent", "unreadable", TABLE),
    ("a CloudEvent of Debezium's without data", dict(CLOUD), {}, "cloudevent", "unreadable", TABLE),
    (
        "a CloudEvent in headers",
        ROW,
        {"ce-specversion": "1.0", "ce-type": "t", "ce-source": "/s"},
        "cloudevent row",
        "upsert",
        SEVEN,
    ),
    (
        "a CloudEvent of Debezium in headers",
        {"before": None, "after": ROW},
        {f"Ce-{name}": value for name, value in CLOUD.items()},
        "cloudevent debezium",
        "update",
        SEVEN,
    ),
]


@pytest.mark.parametrize(("_", "body", "headers", "shape", "op", "tags"), SHAPES, ids=[case[0] for case in SHAPES])
def test_a_shape(_: str, body: Any, headers: dict[str, str], shape: str, op: str, tags: list[str]) -> None:
    found = explained(SINK, headers, raw(body))
    assert (found.event.shape, found.event.op) == (shape, op)
    assert [tag for one in evicted(SINK, headers, raw(body)) for tag in one.tags] == tags
    assert bool(found.event.fault) == (op == "unreadable")


def test_a_mongodb_document_is_found_by_what_its_id_says() -> None:
    source = {"connector": "mongodb", "db": "shop", "collection": "prices"}
    body = envelope("u", None, '{"_id": {"$oid": "5f1e"}, "name": "x"}', source)
    assert evicted("shop.shop.prices", {}, raw(body))[0].tags == ["prices", "shop.prices"]
    for key in ('{"id": "{\\"$oid\\": \\"5f1e\\"}"}', '{"id": "\\"5f1e\\""}'):
        assert "prices:5f1e" in evicted("shop.shop.prices", {"Hasten-Key": key}, raw(body))[0].tags
    assert "prices:1004" in evicted("shop.shop.prices", {"Hasten-Key": '{"id": "1004"}'}, raw(body))[0].tags
    rules = Rules([TableRule(table="shop.prices", key=["_id"])])
    assert "prices:5f1e" in evicted("shop.shop.prices", {}, raw(body), rules)[0].tags


@pytest.mark.parametrize("key", ['{"tenant": "a", "id": 11}', '{"id": 11, "tenant": "a"}'])
@pytest.mark.parametrize("inside", [False, True])
def test_a_composite_key_is_one_tag_in_any_order_wherever_it_comes_from(key: str, inside: bool) -> None:
    body: Any = {"op": "d", "before": None, "after": None, "source": {"table": "faq"}}
    if inside:
        body = {"key": msgspec.json.decode(key), "value": body}
    tags = evicted("shop.public.faq", {} if inside else {"Hasten-Key": key}, raw(body))[0].tags
    assert tags == ["faq:11,a", "faq:*"]


def test_a_key_of_the_row_is_found_in_the_row_by_a_rule() -> None:
    rules = Rules([TableRule(table="faq", key=["tenant", "id"])])
    for row in ({"id": 11, "tenant": "a", "x": 1}, {"x": 1, "tenant": "a", "id": 11}):
        for body in (envelope("u", None, row, {"table": "faq"}), row, {**row, "__op": "u"}):
            assert evicted("shop.public.faq", {}, raw(body), rules)[0].tags[0] == "faq:11,a"


def test_no_letter_of_the_data_is_in_a_fault() -> None:
    for body in (b"secret", raw({"op": "secret", "source": {}, "after": {"id": "secret"}}), raw(["secret"])):
        fault = explained(SINK, {"Hasten-Key": "secret"}, body).event.fault
        assert fault
        assert "secret" not in fault
