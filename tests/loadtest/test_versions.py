"""The model that judges answers while processes are killed: it lets pass what may be, and finds each kind of wrong."""

import pytest

from loadtest.versions import PARTS, Versions, text_of


def changed() -> Versions:
    """A document with two versions that are in the stream, a deletion, and a third on its way."""
    made = Versions()
    for sequence, deleted in ((10, False), (20, False), (30, True), (None, False)):
        made.next("d1", deleted=deleted).sequence = sequence
    return made


def texts(made: Versions, number: int) -> list[str]:
    return text_of("d1", made._sent["d1"][number]).split("\n\n# ")


@pytest.mark.parametrize(
    ("number", "floor", "read_seq"), [(0, 0, 9), (0, 10, 10), (1, 10, 10), (1, 20, 29), (3, 30, 30)]
)
def test_what_may_be_seen_passes(number: int, floor: int, read_seq: int) -> None:
    made = changed()
    made.check("d1", texts(made, number), floor, read_seq)
    assert made.wrong == []


@pytest.mark.parametrize(("number", "floor", "read_seq"), [(0, 20, 0), (0, 0, 20), (1, 30, 0), (1, 10, 30)])
def test_what_is_older_than_was_promised_is_wrong(number: int, floor: int, read_seq: int) -> None:
    made = changed()
    made.check("d1", texts(made, number), floor, read_seq)
    assert len(made.wrong) == 1


@pytest.mark.parametrize(("floor", "read_seq", "wrong"), [(0, 0, 0), (10, 10, 0), (30, 30, 0), (0, 9, 0)])
def test_nothing_may_be_seen_before_the_first_version_and_after_a_deletion(
    floor: int, read_seq: int, wrong: int
) -> None:
    made = changed()
    made.check("d1", [], floor, read_seq)
    assert len(made.wrong) == wrong
    never_deleted = Versions()
    never_deleted.next("d1", deleted=False).sequence = 10
    never_deleted.check("d1", [], 10, 0)
    assert len(never_deleted.wrong) == 1


def test_half_a_document_and_two_versions_are_wrong() -> None:
    made = changed()
    made.check("d1", texts(made, 1)[:-1], 0, 0)
    made.check("d1", [*texts(made, 0), *texts(made, 1)], 0, 0)
    assert made.wrong == [f"d1: {PARTS - 1} of {PARTS} parts", "d1: versions [0, 1] in one answer"]


def test_what_was_applied_is_the_floor() -> None:
    made = changed()
    made.applied("d1", 20)
    made.applied("d1", 10)
    assert (made.floor("d1"), made.floor("d2")) == (20, 0)
