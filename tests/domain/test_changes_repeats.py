"""What a pipeline sends twice evicts once, and nothing is ever dropped that could say something new."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.changes import ChangeReader, DocumentRule, Rules, TableRule, evicted
from hasten.messages.retrieve import DOCUMENT, Document

SUBJECT = "shop.public.prices"
MADE = Rules(
    [
        TableRule(
            table="public.prices",
            key=["id"],
            document=DocumentRule(collection="help", tenant="acme", id="{id}", text="{text}"),
        )
    ]
)


def event(lsn: Any, key: int = 7, op: str = "u", at: int | None = None, **fields: Any) -> bytes:
    """A change at a place in PostgreSQL's log; what was sent twice differs in `ts_ms` and `sequence`."""
    source: dict[str, Any] = {
        "connector": "postgresql",
        "name": "shop",
        "db": "shop",
        "schema": "public",
        "table": "prices",
    }
    source |= {"lsn": lsn, "ts_ms": lsn if at is None else at, "sequence": [random.random()]}
    row = {"id": key, "text": f"t{lsn}", **fields}
    body = {"op": op, "before": None, "after": row, "source": source, "ts_ms": random.random()}
    return msgspec.json.encode(body if op != "d" else {**body, "before": row, "after": None})


def heard(reader: ChangeReader, *messages: bytes, subject: str = SUBJECT) -> list[bool]:
    """Which of the messages evict something."""
    return [bool(reader.read(subject, {}, data).evictions) for data in messages]


@pytest.mark.parametrize("rules", [Rules(), MADE])
def test_a_connector_that_starts_again_evicts_nothing_again(rules: Rules) -> None:
    """The same 1000 changes twice; an answer from after the first pass survives the second."""
    reader = ChangeReader(rules)
    assert all(heard(reader, *(event(lsn, key=lsn) for lsn in range(1, 1001))))
    again = [reader.read(SUBJECT, {}, event(lsn, key=lsn)) for lsn in range(1, 1001)]
    assert not any(reading.evictions for reading in again)
    assert all(reading.repeated for reading in again)
    assert heard(reader, event(1001, key=5)) == [True]


def test_an_older_change_of_a_row_evicts_nothing_unless_it_makes_documents() -> None:
    """A replica of the retriever may still take the older one for the newer one."""
    assert heard(ChangeReader(), event(100), event(200), event(100), event(150), event(200)) == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert heard(ChangeReader(MADE), event(100), event(200), event(100), event(200), event(200)) == [
        True,
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (event(200, at=5), event(100, at=9)),
        (event(200, at=9), event(300, at=5)),
        (event(100), event(100, text="another")),
        (event(100), event(100, key=8)),
        (event(100), event(100, op="d")),
        (event(200), event(100, op="r")),
        (event(None, at=5), event(None, at=5)),
        (event(100, at=0), event(100, at=0)),
        (event("x", at=5), event("x", at=5)),
    ],
)
def test_in_doubt_it_evicts(first: bytes, second: bytes) -> None:
    """A log that began again after a restore, a clock that was set, another row or text, a place that is not known."""
    assert heard(ChangeReader(), first, second) == [True, True]


def test_another_subject_or_source_is_another_change() -> None:
    reader = ChangeReader()
    assert heard(reader, event(100)) == [True]
    assert heard(reader, event(100), subject="copy.public.prices") == [True]
    assert heard(reader, event(100)) == [True]
    other = msgspec.json.decode(event(50))
    other["source"]["name"] = "other"
    assert heard(reader, msgspec.json.encode(other)) == [True]


@pytest.mark.parametrize(
    "between",
    [
        msgspec.json.encode({"op": "t", "source": {"table": "prices"}, "before": None, "after": None}),
        msgspec.json.encode({"op": "u", "source": {"table": "prices"}, "before": None, "after": {"nr": 1}}),
        msgspec.json.encode({"table": "prices", "key": 7}),
        msgspec.json.encode({"table": "prices"}),
        msgspec.json.encode({"op": "u", "source": {"table": "prices"}, "before": {"id": 7}, "after": {"id": 8}}),
        b"{",
    ],
)
@pytest.mark.parametrize("rules", [Rules(), MADE])
def test_whatever_came_between_makes_the_same_change_news(between: bytes, rules: Rules) -> None:
    assert heard(ChangeReader(rules), event(100), between, event(100)) == [True, True, True]


def test_a_document_beside_the_rows_makes_the_same_change_news() -> None:
    reader = ChangeReader(MADE)
    assert heard(reader, event(100)) == [True]
    document = msgspec.json.encode(Document(id="7", op="delete"))
    reader.read(DOCUMENT.subject(tenant="acme", collection="other"), {}, document)
    assert heard(reader, event(100)) == [False]
    reader.read(DOCUMENT.subject(tenant="acme", collection="help"), {}, document)
    assert heard(reader, event(100)) == [True]


def test_two_tables_in_one_collection_may_overwrite_each_other() -> None:
    made = [TableRule(table=f"public.{name}", key=["id"], document=_document()) for name in ("prices", "other")]
    assert heard(ChangeReader(Rules(made)), event(100), event(100)) == [True, True]


def _document() -> DocumentRule:
    return DocumentRule(collection="help", tenant="acme", id="{id}", text="{text}")


def test_what_is_remembered_is_bounded_and_what_is_forgotten_evicts() -> None:
    reader = ChangeReader(remembered=10)
    heard(reader, *(event(lsn, key=lsn) for lsn in range(1, 31)))
    assert heard(reader, *(event(lsn, key=lsn) for lsn in (1, 15, 25, 30))) == [True, True, False, False]


def test_a_truncate_and_a_late_update_leave_the_row_evicted_in_either_order() -> None:
    """The tags are the same and the table of tags keeps the later sequence, so nothing is valid again."""
    truncate = msgspec.json.encode({"op": "t", "source": {"table": "prices", "lsn": 200}})
    for order in ((truncate, event(150, key=5)), (event(150, key=5), truncate)):
        assert heard(ChangeReader(), *order) == [True, True]
    assert set(evicted(SUBJECT, {}, truncate)[0].tags) == {"prices"}


MESSAGES = st.lists(
    st.tuples(st.sampled_from("curdt"), st.integers(1, 3), st.integers(1, 6), st.integers(1, 6), st.booleans()),
    max_size=30,
)


@given(MESSAGES, st.booleans())
def test_an_answer_is_never_left_with_the_text_of_a_row_that_has_changed(messages: Any, documents: bool) -> None:
    """A model of a store that takes every event in the order of the stream, as the slowest retriever may: whenever the
    state of a row's document is another than before, the row's tag was evicted."""
    reader = ChangeReader(MADE if documents else Rules())
    state: dict[int, str] = {}
    for op, key, lsn, at, known in messages:
        before = dict(state)
        data = event(lsn, key=key, op=op, at=at) if known else event(None, key=key, op=op, at=at)
        if op == "t":
            state.clear()
        elif op == "d":
            state.pop(key, None)
        else:
            state[key] = f"t{lsn if known else None}"
        evictions = reader.read(SUBJECT, {}, data).evictions
        if documents and before != state:
            assert evictions


def test_a_tombstone_without_a_key_repeats_the_delete_before_it() -> None:
    """A delete, its tombstone with the key, and one that says nothing at all."""
    reader = ChangeReader()
    assert heard(reader, event(1), event(2, op="d"), b"", b"null") == [True, True, False, False]
    keyed = reader.read(SUBJECT, {"Hasten-Key": '{"id": 7}'}, b"")
    assert keyed.evictions
    assert heard(reader, b"", subject=SUBJECT) == [False]


def test_a_tombstone_without_a_key_may_be_all_there_is_of_a_delete() -> None:
    reader = ChangeReader()
    assert heard(reader, b"null", b"null") == [True, True]
    assert heard(reader, event(1, op="d"), event(2), b"null") == [True, True, True]
    assert heard(reader, event(3, op="d")) == [True]
    assert heard(reader, b"null", subject="shop.public.faq") == [True]
