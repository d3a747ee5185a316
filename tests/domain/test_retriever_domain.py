"""The retriever's decisions: what is current, what may be returned, what fits, what is refused."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.messages.failure import Failed
from hasten.messages.retrieve import Document, Passage
from hasten.retriever.applier import final
from hasten.retriever.chunking import chunks
from hasten.retriever.domain import Refused, check, current, fitting, overtaken, passages, vector_of, without
from hasten.retriever.ingestion import by_document
from hasten.retriever.reading import read
from hasten.retriever.records import Key, Manifest, chunk_point, chunks_where, manifest_of, manifest_point, path
from hasten.retriever.rows import Mail
from hasten.vectors.store import Match, Point, StoreError

KEY = Key("acme", "help", "prices")
DOCUMENT = Document(id="prices", title="Prices", text="# Fee\n\nIt is 5.", tags=["prices:7"], metadata={"lang": "en"})


def matches(version: int, score: float = 0.5, key: Key = KEY) -> list[Match]:
    vector = np.zeros(4, dtype=np.float32)
    points = [chunk_point(key, version, DOCUMENT, one, vector) for one in chunks(DOCUMENT.text, DOCUMENT.media_type)]
    return [Match(id=point.id, score=score, payload=point.payload) for point in points]


def manifests(*versions: int, deleted: int = -1) -> dict[str, Manifest]:
    made = [
        manifest_point(KEY, Manifest(version=version, deleted=version == deleted, chunks=1)) for version in versions
    ]
    return current(made)


@given(st.permutations([3, 9, 5, 1]))
def test_the_highest_version_is_current_in_whatever_order_they_come(versions: list[int]) -> None:
    assert manifests(*versions)[KEY.id].version == 9
    assert passages(matches(9), manifests(*versions))
    assert not passages(matches(5), manifests(*versions))
    assert not passages(matches(9), manifests(*versions, deleted=9))
    assert not passages(matches(9), {})


def test_a_deletion_that_is_under_way_hides_older_versions_only() -> None:
    assert without(manifests(5), {KEY.id: 6})[KEY.id].deleted
    assert not without(manifests(5), {KEY.id: 4})[KEY.id].deleted
    assert without({}, {KEY.id: 4}) == {}


def test_a_search_is_repeated_only_when_a_version_appeared_while_it_ran() -> None:
    before, after = manifests(5), manifests(5, 6)
    assert overtaken(matches(5), after, {})
    assert overtaken(matches(5), after, before)
    assert not overtaken(matches(5), after, after), "what is left of an old version is no reason"
    assert not overtaken(matches(5), before, {})
    assert not overtaken(matches(6), before, {}), "a version that is being written is none either"
    assert not overtaken(matches(5), manifests(6, deleted=6), {})


def test_ids_do_not_collide() -> None:
    keys = [Key("a", "b", "c"), Key("a", "b_c", ""), Key("a_b", "", "c"), Key("a", "", "bc"), Key("a", "b", 'c","d')]
    assert len({key.id for key in keys}) == len(keys)
    points = [manifest_point(key, Manifest(version=version)) for key in keys for version in (1, 2)]
    points += [Point(id=one.id, payload=one.payload) for key in keys for one in matches(1, key=key)]
    assert len({point.id for point in points}) == len(points)


def test_the_tenant_is_the_last_word_of_the_filter() -> None:
    where = chunks_where("a", ["x"], {"tenant": "b", "kind": "manifest", "collection": "y", "a.b": 1})
    assert where.equal["tenant"] == "a"
    assert where.equal["kind"] == "chunk"
    assert where.equal["collection"] == ["x"]
    assert where.equal["meta.tenant"] == "b"
    assert where.equal['meta."a.b"'] == 1
    assert next(reversed(where.equal)) == "tenant"
    assert path("lang") == "meta.lang"


@given(st.lists(st.text(max_size=200), max_size=20), st.integers(0, 3000))
def test_what_fits_is_kept_in_order(texts: list[str], room: int) -> None:
    found = [Passage(id=str(n), collection="c", document="d", text=text) for n, text in enumerate(texts)]
    kept, partial = fitting(found, room)
    assert sum(len(msgspec.json.encode(one)) + 1 for one in kept) <= room
    assert [one.id for one in kept] == sorted((one.id for one in kept), key=int)
    assert partial == (len(kept) < len(found))
    assert fitting(found, 10**9) == (found, False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"id": "x" * 513},
        {"text": " __debezium_unavailable_value\n"},
        {"title": "__debezium_unavailable_value"},
        {"metadata": {"": 1}},
        {"metadata": {"a\n": 1}},
        {"metadata": {"n": 2**63}},
        {"metadata": {"n": [1, -(2**63) - 1]}},
        {"url": "x" * 20_000},
    ],
)
def test_documents_that_cannot_be_indexed_are_refused(wrong: dict[str, object]) -> None:
    check(DOCUMENT)
    with pytest.raises(Refused):
        check(msgspec.structs.replace(DOCUMENT, **wrong))


def test_a_deletion_needs_nothing_but_an_id() -> None:
    mail = read("hasten.v1.document.acme.help", b'{"id":"x","op":"delete","text":"__debezium_unavailable_value"}', 7)
    assert manifest_of(mail.document, mail.sequence, 0) == Manifest(version=7, deleted=True)
    with pytest.raises(Refused):
        read("hasten.v1.document.acme.help", b'{"op":"delete"}', 7)


def test_a_vector_must_be_of_the_right_size_and_finite() -> None:
    assert vector_of(np.ones(4, dtype="<f4").tobytes(), 4).tolist() == [1, 1, 1, 1]
    for raw in (b"", b"1234", np.ones(5, dtype="<f4").tobytes(), np.full(4, np.nan, dtype="<f4").tobytes()):
        with pytest.raises(Refused):
            vector_of(raw, 4)


def test_what_passes_is_tried_for_ever_and_what_does_not_is_given_up() -> None:
    for passing in (Failed("overloaded", ""), Failed("deadline", ""), StoreError("down"), TimeoutError()):
        assert final(passing, 10_000, 5) is None
    assert final(Refused("never"), 1, 5) == "never"
    assert final(Failed("internal", "secret"), 4, 5) is None
    assert final(Failed("internal", "secret"), 5, 5) == "it could not be indexed (internal)"
    assert final(ZeroDivisionError("secret"), 5, 5) == "it could not be indexed (ZeroDivisionError)"


def test_versions_of_a_document_are_taken_from_the_newest_on() -> None:
    order = [(name, sequence) for sequence, name in enumerate("abacb", start=1)]
    mails = [(Mail(Key("t", "c", name), sequence, DOCUMENT), object()) for name, sequence in order]
    grouped = [[mail.sequence for mail, _ in group] for group in by_document(mails)]  # type: ignore[arg-type]
    assert grouped == [[3, 1], [5, 2], [4]]


def test_a_manifest_survives_its_payload() -> None:
    made = manifest_of(DOCUMENT, 5, 2)
    assert current([Point(id="x", payload=manifest_point(KEY, made).payload)]) == {KEY.id: made}
