"""Which versions of documents a row event makes, and which of two versions stays."""

from typing import Any

import msgspec
import pytest

from hasten.changes import DocumentRule, Rules, TableRule
from hasten.changes.positions import Position
from hasten.retriever.domain import Refused
from hasten.retriever.records import Key, Manifest
from hasten.retriever.rows import Emptied, Mail, best_first, completed, says_the_same, steps, supersedes

SUBJECT = "shop.public.articles"
MARKER = "__debezium_unavailable_value"
RULE = DocumentRule(
    collection="help",
    id="article-{id}",
    title="{title}",
    text="# {title}\n\n{body}",
    url="https://x.example/{id}",
    metadata=["lang", "views", "labels", "extra"],
    tags=["topic:{topic}", "kb"],
)
RULES = Rules([TableRule(table="public.articles", key=["id"], tenant="acme", document=RULE)])
ROW = {
    "id": 7,
    "title": "Fees",
    "body": "The fee is 9 euros.",
    "topic": "money",
    "lang": "en",
    "views": 3,
    "labels": ["a", "b"],
    "extra": {"x": 1},
}


def event(op: str, before: Any = None, after: Any = None, **source: Any) -> bytes:
    given = {"schema": "public", "table": "articles", **source}
    return msgspec.json.encode({"op": op, "before": before, "after": after, "source": given})


def found(data: bytes, rules: Rules = RULES, headers: dict[str, str] | None = None, subject: str = SUBJECT) -> Any:
    return steps(subject, headers or {}, data, 5, rules)


def only(data: bytes, **more: Any) -> Mail:
    (mail,) = found(data, **more).todo
    assert isinstance(mail, Mail)
    return mail


def test_a_row_becomes_a_document_with_the_tag_of_the_row() -> None:
    mail = only(event("c", None, ROW))
    assert (mail.key, mail.sequence) == (Key("acme", "help", "article-7"), 5)
    document = mail.document
    assert (document.id, document.op, document.title) == ("article-7", "upsert", "Fees")
    assert document.text == "# Fees\n\nThe fee is 9 euros."
    assert document.url == "https://x.example/7"
    assert document.metadata == {"lang": "en", "views": 3, "labels": ["a", "b"], "extra": '{"x":1}'}
    assert document.tags == ["articles:7", "topic:money", "kb"]


@pytest.mark.parametrize("op", ["c", "r", "u"])
def test_every_row_that_is_there_is_an_upsert_in_any_shape(op: str) -> None:
    document = only(event(op, None, ROW)).document
    assert only(msgspec.json.encode({**ROW, "__op": op, "__table": "articles"})).document == document
    assert only(msgspec.json.encode(ROW)).document == document


def test_nulls_are_nothing_to_a_reader() -> None:
    mail = only(event("u", None, {**dict.fromkeys(ROW), "id": 7, "body": None}))
    assert (mail.document.title, mail.document.text) == ("", "# \n\n")
    assert mail.document.metadata == {}
    assert mail.document.tags == ["articles:7", "kb"]


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        (event("d", {"id": 7, "title": None}), {}),
        (event("d"), {"Hasten-Key": '{"id": 7}'}),
        (b"", {"Hasten-Key": '{"id": 7}'}),
        (msgspec.json.encode({"id": 7, "__deleted": "true"}), {}),
        (msgspec.json.encode({"table": "articles", "key": 7, "op": "delete"}), {}),
    ],
)
def test_a_deleted_row_deletes_its_document(data: bytes, headers: dict[str, str]) -> None:
    mail = only(data, headers=headers)
    assert (mail.key.document, mail.document.op, mail.partial) == ("article-7", "delete", False)


def test_a_moved_key_deletes_one_document_and_makes_another() -> None:
    gone, made = found(event("u", {**ROW, "id": 6}, ROW)).todo
    assert (gone.key.document, gone.document.op) == ("article-6", "delete")
    assert (made.key.document, made.document.op) == ("article-7", "upsert")


def test_an_emptied_table_and_a_changed_schema() -> None:
    assert found(event("t")).todo == [Emptied("public.articles")]
    assert found(msgspec.json.encode({"ddl": "x", "source": {}})).todo == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (event("u", None, {"title": "x"}), "the key of the row cannot be told"),
        (event("u", None, {"id": MARKER}), "the key of the row cannot be told"),
        (msgspec.json.encode({"table": "articles", "key": 7}), "the event carries no row"),
    ],
)
def test_what_makes_no_document_is_said_without_the_data(data: bytes, said: str) -> None:
    done = found(data)
    assert done.todo == []
    assert len(done.refused) == 1
    assert said in done.refused[0]


def test_a_row_that_cannot_be_indexed_deletes_its_document() -> None:
    done = found(event("u", None, {**ROW, "title": "x" * 20_000}))
    (gone,) = done.todo
    assert (gone.key.document, gone.document.op) == ("article-7", "delete")
    assert "at most 16384 are taken" in done.refused[0]


def test_the_tenant_is_a_key_column_or_refused() -> None:
    rules = Rules([TableRule(table="articles", key=["id", "tenant"], tenant="{tenant}", document=RULE)])
    assert only(event("u", None, {**ROW, "tenant": "globex"}), rules=rules).key.tenant == "globex"
    assert "no tenant's name" in found(event("u", None, {**ROW, "tenant": "No One"}), rules).refused[0]


def test_what_concerns_no_rule_or_one_tenant_makes_nothing() -> None:
    for subject in ("hasten.v1.change._tenant.acme", "hasten.v1.change._tenant.globex"):
        assert found(event("u", None, ROW), subject=subject).todo == []
    assert found(event("u", None, ROW, table="other")).todo == []
    assert found(event("u", None, ROW), Rules([TableRule(table="articles", key=["id"])])).todo == []
    for data in (b"{", b"", b'{"ts_ms": 1}'):
        assert found(data).todo == []


@pytest.mark.parametrize("absent", [{"body": MARKER}, {"labels": [MARKER]}, None])
def test_what_the_source_did_not_send_is_taken_from_the_version_before(absent: dict[str, Any] | None) -> None:
    row = {**ROW, "title": "New", **absent} if absent else {"id": 7, "title": "New", "body": "b"}
    mail = only(event("u", None, row))
    assert mail.partial
    assert mail.row is not None
    assert MARKER not in str(mail.document)
    document, whole = completed(mail.key, mail.row, ROW)
    assert document.title == "New"
    assert MARKER not in str(document)
    assert whole.missing == frozenset()
    assert set(whole.values) == {"id", "title", "body", "topic", "lang", "views", "labels", "extra"}
    for before in (None, {}, {"title": "Old"}):
        with pytest.raises(Refused, match="no version of the document from before"):
            completed(mail.key, mail.row, before)


def at(lsn: int, ms: int | None = None) -> Position:
    return Position(("postgresql", "shop", "shop"), (lsn,), lsn if ms is None else ms)


def version(sequence: int, lsn: int | None = None, op: str = "u", **row: Any) -> Mail:
    """A version of one document; without a place in the log there is none."""
    where = {} if lsn is None else {"connector": "postgresql", "name": "shop", "db": "shop", "lsn": lsn, "ts_ms": lsn}
    before, after = ({"id": 7}, None) if op == "d" else (None, {**ROW, **row})
    (mail,) = steps(SUBJECT, {}, event(op, before, after, **where), sequence, RULES).todo
    assert isinstance(mail, Mail)
    return mail


@pytest.mark.parametrize(
    ("known", "mail", "stays"),
    [
        (Manifest(version=9), version(5), True),
        (Manifest(version=3), version(5), False),
        (Manifest(version=3, at=at(200)), version(5, 100), True),
        (Manifest(version=3, at=at(100)), version(5, 200), False),
        (Manifest(version=3, at=at(100)), version(5, 100), False),
        (Manifest(version=3, at=at(200, ms=50)), version(5, 100), False),
        (Manifest(version=3, at=at(200)), version(5), False),
        (Manifest(version=3), version(5, 100), False),
        (Manifest(version=3, at=at(200)), version(5, 100, "r"), False),
        (Manifest(version=3, at=at(200), deleted=True), version(5, 100), True),
        (Manifest(version=3, at=at(200), deleted=True), version(5, None, "d"), True),
        (Manifest(version=3, at=at(200)), version(5, None, "d"), False),
    ],
)
def test_an_older_version_never_wins(known: Manifest, mail: Mail, stays: bool) -> None:
    assert supersedes(known, mail) is stays


def test_the_same_version_again_is_known_by_its_place_and_its_words() -> None:
    mail = version(5, 100)
    assert mail.row is not None
    known = Manifest(version=3, at=at(100), digest=mail.document.digest)
    assert says_the_same(known, mail.row, mail.document)
    assert not says_the_same(known, mail.row, version(5, 100, title="Other").document)
    assert not says_the_same(msgspec.structs.replace(known, deleted=True), mail.row, mail.document)
    assert not says_the_same(Manifest(version=3, digest=known.digest), version(5).row, mail.document)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("versions", "wanted"),
    [
        ([version(1), version(2), version(3)], [3, 2, 1]),
        ([version(1, 10), version(2, 20), version(3, 10)], [2, 3, 1]),
        ([version(1, 20), version(2, 10), version(3)], [3, 2, 1]),
        ([version(1, 20), version(2, 10, "r"), version(3, 15)], [3, 2, 1]),
        ([version(1), version(2, body=MARKER), version(3)], [1, 2, 3]),
    ],
)
def test_the_version_that_stays_is_applied_first(versions: list[Mail], wanted: list[int]) -> None:
    """Unless one has to be completed from the one before it."""
    assert [mail.sequence for mail in best_first(versions)] == wanted
    assert [mail.sequence for mail in best_first(versions[::-1])] == wanted


def test_a_row_that_moves_to_what_is_no_tenant_leaves_the_one_it_was_with() -> None:
    """Its document there would never go again: nothing names it any more."""
    rules = Rules([TableRule(table="articles", key=["id", "owner"], tenant="{owner}", document=RULE)])
    before, after = {**ROW, "owner": "acme"}, {**ROW, "owner": "Acme Ltd"}
    for key in (None, {"id": 7, "owner": "acme"}):
        headers = {} if key is None else {"Hasten-Key": msgspec.json.encode(key).decode()}
        made = found(event("u", before, after), rules, headers)
        (gone,) = made.todo
        assert (gone.key, gone.document.op) == (Key("acme", "help", "article-7"), "delete")
        assert "tenant" in made.refused[0]


def test_a_row_that_comes_from_what_is_no_tenant_becomes_a_document() -> None:
    rules = Rules([TableRule(table="articles", key=["id", "owner"], tenant="{owner}", document=RULE)])
    made = found(event("u", {**ROW, "owner": "Acme Ltd"}, {**ROW, "owner": "acme"}), rules)
    (mail,) = made.todo
    assert (mail.key.tenant, mail.document.op, made.refused) == ("acme", "upsert", [])
