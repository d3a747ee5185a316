"""Event ids, and what is written down of an answer that several gateways have streamed one after another."""

import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hasten.gateway.mark import Mark, parsed
from hasten.gateway.record import Record
from hasten.messages.chat import Accepted, Chunk, Done, Note
from hasten.messages.failure import Failed
from hasten.messages.streamed import Opened, Streamed

ASKED = {"messages": [{"role": "user", "content": "Which rivers?"}]}
KINDS = st.lists(st.sampled_from("cn"), max_size=12)


def numbered(kinds: list[str], writer: str = "one", replica: str = "r1") -> list[Streamed]:
    """A whole answer: accepted, chunks and notes, done, each with the place after it."""
    chunks = notes = 0
    found = [Streamed(writer=writer, event=Accepted(request_id="mine", replica=replica), replica=replica)]
    for at, kind in enumerate(kinds):
        event: Any = Chunk(seq=chunks, text=f"{at} ") if kind == "c" else Note(kind="route", data={"model": f"m{at}"})
        chunks, notes = (chunks + 1, 0) if kind == "c" else (chunks, notes + 1)
        found.append(Streamed(writer=writer, event=event, chunks=chunks, notes=notes, replica=replica))
    done = Done(finish_reason="stop", chunks=chunks)
    return [*found, Streamed(writer=writer, event=done, chunks=chunks, notes=notes, replica=replica)]


def opened(writer: str, at: Streamed | None = None) -> Streamed:
    if at is None:
        return Streamed(writer=writer, opened=Opened(request=ASKED, asked_ms=1))
    return Streamed(writer=writer, opened=Opened(again=True, chunks=at.chunks, notes=at.notes))


def events(entries: list[Streamed]) -> list[Any]:
    return [entry.event for entry in entries]


@given(KINDS)
def test_what_follows_a_place_and_what_leads_to_it_are_the_whole(kinds: list[str]) -> None:
    whole = numbered(kinds)
    record = Record([opened("one"), *whole])
    assert record.ended
    assert events(record.after((-1, 0))) == events(whole)
    for at, entry in enumerate(whole[:-1]):
        place = (entry.chunks, entry.notes)
        assert record.has(place)
        assert events(record.upto(place)) == events(whole[: at + 1])
        assert events(record.after(place)) == events(whole[at + 1 :])
        resume = record.resume(place)
        assert (resume.last, resume.notes, resume.request) == (entry.chunks - 1, entry.notes, ASKED)
        texts = [event.text for event in events(whole[: at + 1]) if isinstance(event, Chunk)]
        assert resume.shown == texts


@given(KINDS, st.data())
def test_only_the_writer_that_came_last_counts_from_where_it_began(kinds: list[str], data: st.DataObject) -> None:
    whole = numbered(kinds)
    reached = data.draw(st.integers(0, len(whole) - 2))
    begins = data.draw(st.integers(0, reached))
    late = data.draw(st.integers(0, len(whole) - 1))
    taken = numbered(kinds, "two", "r2")[begins + 1 :]
    entries = [opened("one"), *whole[: reached + 1], opened("two", whole[begins]), *taken[:1]]
    entries += [whole[late], opened("one"), *taken[1:]]
    record = Record(entries)
    assert events(record.entries) == events(whole)
    assert (record.ended, record.replica) == (True, "r2")


def test_a_new_request_of_the_same_id_is_a_new_record() -> None:
    record = Record([opened("one"), *numbered(["c", "c"]), opened("two"), *numbered(["n"], "two")[:2]])
    assert (len(record.entries), record.ended, record.at) == (2, False, (0, 1))


def test_what_was_never_asked_is_no_record() -> None:
    whole = numbered(["c"])
    assert Record().opened is None
    assert Record([opened("two", whole[0]), *whole]).opened is None
    assert Record(whole).entries == []


def test_text_is_only_shown_when_all_of_it_is_known() -> None:
    whole = numbered(["c", "c", "c"])
    record = Record([opened("one"), *whole[:2], whole[3]])
    assert record.resume((3, 0)).shown == []
    thought = Streamed(writer="one", event=Chunk(seq=0, reasoning="hm"), chunks=1)
    assert Record([opened("one"), whole[0], thought]).resume((1, 0)).shown == []


@given(st.from_regex(r"[a-z0-9_-]{1,64}", fullmatch=True), st.integers(0, 10**9 - 1), st.integers(0, 10**9 - 1))
def test_a_mark_survives_its_way_to_a_reader_and_back(request_id: str, chunks: int, notes: int) -> None:
    for end in (False, True):
        mark = Mark(request_id=request_id, chunks=chunks, notes=notes, end=end)
        assert parsed(str(mark)) == mark


@given(st.text(max_size=40))
def test_any_other_text_is_refused(text: str) -> None:
    assume(not re.fullmatch(r"[a-z0-9_-]+(\.[0-9]+){2}(\.end)?", text, re.ASCII))
    with pytest.raises(Failed) as failed:
        parsed(text)
    assert failed.value.failure.param == "Last-Event-ID"


@pytest.mark.parametrize(
    "text", ["mine.1.0\n", "mine.1.0.END", "mine.１.0", "mine..0", ".1.0", "mine.1.0.", "m" * 65 + ".1.0"]
)
def test_what_looks_like_a_mark_is_refused(text: str) -> None:
    with pytest.raises(Failed, match="bad_request"):
        parsed(text)
