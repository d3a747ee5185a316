"""Change events in every shape: what they evict, that nothing readable is missed and nothing unreadable is skipped."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.changes import ALL, EVERYBODY, UNREADABLE, Eviction, evicted, expanded
from hasten.messages.change import CHANGE, TENANT_CHANGE, Change
from hasten.messages.retrieve import DOCUMENT, Document

SHOP = CHANGE.subject(source="shop")
SINK = "shop.public.prices"
SOURCE = {"db": "shop", "schema": "public", "table": "prices", "lsn": 24023128}


def tags(subject: str, body: Any, headers: dict[str, str] | None = None) -> list[str]:
    """The tags of the only eviction, [] when there is none."""
    found = evicted(subject, headers or {}, body if isinstance(body, bytes) else msgspec.json.encode(body))
    assert len(found) <= 1
    return found[0].tags if found else []


def stale(answer: list[str], subject: str, body: Any, headers: dict[str, str] | None = None) -> bool:
    """Whether an answer with these tags is evicted by the message."""
    return bool(set(expanded(answer)) & set(tags(subject, body, headers)))


def envelope(op: str, before: Any = None, after: Any = None, source: Any = SOURCE) -> dict[str, Any]:
    """Debezium's envelope, as the connector for PostgreSQL writes it."""
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1, "transaction": None}


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (envelope("c", None, {"id": 7, "price": 3}), "prices:7"),
        (envelope("r", None, {"id": 7, "price": 3}), "prices:7"),
        (envelope("u", None, {"id": 7, "price": 3}), "prices:7"),
        (envelope("u", {"id": 7}, {"id": "7"}), "prices:7"),
        (envelope("d", {"id": 7, "price": None}, None), "prices:7"),
        (envelope("u", None, {"id": 7.0}), "prices:7"),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("subject", [SHOP, SINK, "hasten.v1.change.shop.public.prices"])
def test_a_row_evicts_itself_and_no_neighbour(body: Any, wanted: str, wrapped: bool, subject: str) -> None:
    sent = {"schema": {"type": "struct"}, "payload": body} if wrapped else body
    assert tags(subject, sent) == [wanted, f"public.{wanted}", "prices:*", "public.prices:*"]
    assert stale(["prices:7"], subject, sent)
    assert stale(["public.prices:7"], subject, sent)
    assert stale(["prices"], subject, sent), "what depends on the whole table depends on each row"
    assert not stale(["prices:8"], subject, sent)
    assert not stale(["prices:77"], subject, sent)
    assert not stale(["stock:7"], subject, sent)


def test_a_moved_key_evicts_the_old_row_and_the_new_one() -> None:
    assert tags(SHOP, envelope("u", {"id": 7}, {"id": 8}))[:4] == [
        "prices:7",
        "public.prices:7",
        "prices:8",
        "public.prices:8",
    ]


@pytest.mark.parametrize(
    "body",
    [
        envelope("t"),
        envelope("u", None, {"sku": "A"}),
        envelope("u", None, {"id": None}),
        envelope("u", None, {"id": ""}),
        envelope("u", None, {"id": True}),
        envelope("u", None, {"id": 1.5}),
        envelope("u", None, {"id": {"scale": 0, "value": "BA=="}}),
        envelope("u", None, '{"_id": 7}'),
        envelope("x", None, {"id": 7}),
        envelope("d"),
    ],
)
def test_without_a_key_the_whole_table_goes(body: Any) -> None:
    assert tags(SHOP, body) == ["prices", "public.prices"]
    assert stale(["prices:7"], SHOP, body)
    assert stale(["public.prices:7"], SHOP, body)
    assert not stale(["stock:7"], SHOP, body)


@pytest.mark.parametrize("header", ["Hasten-Key", "Debezium-Key"])
@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ('{"sku": "A-1"}', "prices:A-1"),
        ('{"schema": {"type": "struct"}, "payload": {"sku": "A-1"}}', "prices:A-1"),
        ('"A-1"', "prices:A-1"),
        ('{"shop": 2, "article": 31}', "prices:31,2"),
        ('{"article": 31, "shop": 2}', "prices:31,2"),
    ],
)
def test_the_key_header_names_the_row(header: str, key: str, wanted: str) -> None:
    assert tags(SHOP, envelope("u", None, {"price": 3}), {header: key})[0] == wanted


@pytest.mark.parametrize("key", ["", "{", "null", "{}", '{"a": null}', "[1]", "A-1"])
def test_a_key_header_that_cannot_be_read_evicts_the_table(key: str) -> None:
    assert tags(SHOP, envelope("u", None, {"price": 3}), {"Hasten-Key": key}) == ["prices", "public.prices"]


def test_mysql_and_mongodb_name_their_tables_in_their_own_way() -> None:
    mysql = envelope("u", None, {"id": 7}, {"db": "shop", "table": "prices", "schema": None})
    assert tags(SHOP, mysql)[:2] == ["prices:7", "shop.prices:7"]
    mongo = envelope("u", None, {"id": 7}, {"db": "shop", "collection": "prices"})
    assert tags(SHOP, mongo)[:2] == ["prices:7", "shop.prices:7"]


def test_without_a_table_in_the_source_the_subject_names_it() -> None:
    assert tags(SINK, envelope("u", None, {"id": 7}, {"lsn": 1}))[:2] == ["prices:7", "public.prices:7"]
    assert tags(SINK, envelope("t", source=None)) == ["prices", "public.prices"]


@pytest.mark.parametrize(
    "body",
    [
        {"ts_ms": 1},
        {"schema": {}, "payload": {"ts_ms": 1}},
        {"status": "BEGIN", "id": "571:5", "event_count": None, "data_collections": None, "ts_ms": 1},
        {"op": "m", "source": SOURCE, "message": {"prefix": "x", "content": "eA=="}},
    ],
)
def test_what_changes_no_row_evicts_nothing(body: Any) -> None:
    assert tags(SINK, body) == []


def test_a_tombstone_with_a_key_evicts_the_row_that_the_subject_and_the_header_name() -> None:
    """A flattened delete may be nothing but its tombstone."""
    assert tags(SINK, b"", {"Hasten-Key": '{"id": 7}'})[:2] == ["prices:7", "public.prices:7"]


@pytest.mark.parametrize("body", [b"", b"null", {"schema": {"type": "struct"}, "payload": None}])
def test_a_tombstone_without_a_key_evicts_the_table(body: Any) -> None:
    """Debezium's flattened delete is a body `null`, and its sink for NATS sends no key with it."""
    assert tags(SINK, body) == ["prices", "public.prices"]


def test_a_schema_change_evicts_its_tables() -> None:
    body = {
        "source": SOURCE,
        "ddl": "TRUNCATE TABLE prices",
        "tableChanges": [{"type": "ALTER", "id": '"public"."stock"'}],
    }
    assert tags(SHOP, body) == ["stock", "public.stock"]
    assert tags(SINK, {"ddl": "x"}) == ["prices", "public.prices"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        b"7",
        b'"x"',
        b"[1]",
        b"{}",
        b"[" * 100_000,
        b'{"a": 1e999}',
        {"price": 3},
        {"id": 7, "data": {"price": 3}},
        {"table": 7},
    ],
)
def test_what_cannot_be_read_evicts_the_table_of_the_subject_and_says_so(body: Any) -> None:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    assert evicted(SINK, {}, data) == [Eviction(tenant=EVERYBODY, tags=["prices", "public.prices"], reason=UNREADABLE)]
    assert evicted(SHOP, {}, data)[0].tags == ["shop"]
    assert evicted(TENANT_CHANGE.subject(tenant="acme"), {}, data) == [
        Eviction(tenant="acme", tags=[ALL], reason=UNREADABLE)
    ]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (Change(table="prices", key=7), ["prices:7", "prices:*"]),
        (Change(table="prices", key="7"), ["prices:7", "prices:*"]),
        (Change(table="prices", key={"b": 1, "a": "x"}), ["prices:x,1", "prices:*"]),
        (
            Change(table="prices", key=7, db_schema="public"),
            ["prices:7", "public.prices:7", "prices:*", "public.prices:*"],
        ),
        (Change(table="prices"), ["prices"]),
        (Change(table="prices", key=7, op="truncate"), ["prices"]),
        (Change(table="prices", key={"a": None}), ["prices"]),
        (Change(table="prices", key={}), ["prices"]),
        (Change(tags=["kb:faq"]), ["kb:faq", "kb:*"]),
        (Change(tags=["kb"], table="prices", key=7), ["kb", "prices:7", "prices:*"]),
        (Change(tags=[ALL]), [ALL]),
    ],
)
def test_our_own_change(change: Change, wanted: list[str]) -> None:
    assert tags(SHOP, change) == wanted


def test_a_change_of_one_tenant_is_that_tenants_alone() -> None:
    data = msgspec.json.encode(Change(tags=["prices:7"], reason="wrong"))
    found = evicted(TENANT_CHANGE.subject(tenant="acme"), {}, data)
    assert found == [Eviction(tenant="acme", tags=["prices:7", "prices:*"], reason="wrong")]
    assert evicted(SHOP, {}, data)[0].tenant == EVERYBODY
    assert evicted("hasten.v1.change._tenant.*", {}, data) == [], "no tenant is called *"


def test_a_bare_row_with_a_column_called_table_evicts_its_real_table_too() -> None:
    assert "bookings" in tags("hasten.v1.change.bookings", {"id": 1, "table": "T5", "seats": 4})


def test_a_field_of_a_later_version_does_not_hide_a_change() -> None:
    assert "prices:7" in tags(SHOP, {"table": "prices", "key": 7, "written_by": "etl"})


def test_documents_evict_themselves_their_collection_and_their_tags() -> None:
    subject = DOCUMENT.subject(tenant="acme", collection="help")
    data = msgspec.json.encode(Document(id="returns", text="30 days", tags=["prices:7"]))
    (found,) = evicted(subject, {}, data)
    assert (found.tenant, found.reason) == ("acme", "document upsert")
    assert found.tags[:3] == ["document:help/returns", "collection:help", "prices:7"]
    assert not set(expanded(["document:help/returns2", "collection:other"])) & set(found.tags)
    (unread,) = evicted(subject, {}, b"{")
    assert (unread.tenant, unread.tags[0], unread.reason) == ("acme", "collection:help", UNREADABLE)


def test_a_document_of_a_name_that_cannot_be_is_nobodys() -> None:
    assert evicted("hasten.v1.document.a*.help", {}, b"{}") == []
    assert evicted("hasten.v1.document.acme", {}, b"{}") == []


def test_numbers_of_any_length_are_keys() -> None:
    assert tags(SHOP, b'{"table": "prices", "key": 123456789012345678901234567890}')[0].endswith("67890")
    assert tags(SHOP, b'{"table": "prices", "key": ' + b"9" * 6000 + b"}") != []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
FIELDS = ["id", "table", "key", "op", "tags", "before", "after", "source", "schema", "payload", "db", "status", "ddl"]
NEAR = st.dictionaries(st.sampled_from(FIELDS), JSON | st.sampled_from(["u", "d", "t", "m", "prices"]), max_size=6)
PLACE = st.lists(st.text(st.characters(codec="ascii", exclude_characters=" .*>"), min_size=1), min_size=1, max_size=4)


@given(st.text(), st.dictionaries(st.sampled_from(["Hasten-Key", "Debezium-Key", "x"]), st.text()), st.binary())
def test_nothing_raises_whatever_arrives(subject: str, headers: dict[str, str], data: bytes) -> None:
    evicted(subject, headers, data)


@given(PLACE, NEAR | JSON)
def test_no_change_is_skipped_unless_it_is_known_to_change_nothing(place: list[str], body: Any) -> None:
    data = json.dumps(body).encode()
    found = evicted("hasten.v1.change." + ".".join(place), {}, data)
    payload = body["payload"] if isinstance(body, dict) and body.keys() == {"schema", "payload"} else body
    harmless = isinstance(payload, dict) and (payload.get("op") == "m" or payload.keys() == {"ts_ms"})
    if place[0] != "_tenant" and not harmless:
        assert found
        assert all(eviction.tags for eviction in found)


@given(st.text(min_size=1), st.integers() | st.text(min_size=1), st.booleans())
def test_an_answer_is_found_by_its_row_and_by_its_table(table: str, key: int | str, whole: bool) -> None:
    change = Change(table=table, key=None if whole else key)
    assert stale([f"{table}:{key}"], SHOP, change)
    assert stale([table], SHOP, change)


@given(st.lists(st.text()))
def test_expanding_keeps_every_tag(given_tags: list[str]) -> None:
    assert set(given_tags) <= set(expanded(given_tags))
    assert len(expanded(given_tags)) <= 2 * len(given_tags)
