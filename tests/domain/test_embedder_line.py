"""Order and fairness of the embedder's line."""

from hypothesis import given
from hypothesis import strategies as st

from hasten.embedder.domain import TURNS, Line, estimate

WINDOW = 256
SHORT = "how long does a refund take"
LONG = "the parcel was returned because nobody signed for it " * 8


def drained(line: Line) -> list[list[tuple[int, int]]]:
    """Every batch until the line is empty, as (owner, place)."""
    batches = []
    while batch := line.next():
        batches.append([(piece.owner, piece.at) for piece in batch])
    return batches


@given(st.lists(st.lists(st.text(max_size=600), max_size=12), max_size=8), st.integers(1, 400))
def test_every_text_is_taken_exactly_once(requests: list[list[str]], batch_tokens: int) -> None:
    line = Line(batch_tokens)
    for owner, texts in enumerate(requests):
        line.add(owner, texts, WINDOW)
    taken = [place for batch in drained(line) for place in batch]
    assert sorted(taken) == [(owner, at) for owner, texts in enumerate(requests) for at in range(len(texts))]


@given(st.lists(st.text(max_size=900), min_size=1, max_size=40), st.integers(1, 400))
def test_a_batch_never_exceeds_its_tokens_unless_it_is_one_text(texts: list[str], batch_tokens: int) -> None:
    line = Line(batch_tokens)
    line.add(1, texts, WINDOW)
    while batch := line.next():
        assert len(batch) == 1 or len(batch) * max(piece.tokens for piece in batch) <= batch_tokens


def test_a_small_request_passes_a_large_one_that_came_first() -> None:
    line = Line(128)
    line.add(1, [LONG] * 256, WINDOW)
    line.next()
    line.add(2, [SHORT], WINDOW)
    assert [piece.owner for piece in line.next()] == [2]


def test_a_large_request_is_not_starved_by_small_ones() -> None:
    line = Line(16)
    line.add(0, [LONG] * 4, WINDOW)
    owners = []
    for number in range(1, 4 * (TURNS + 1) + 1):
        line.add(number, [SHORT], WINDOW)
        owners.append(line.next()[0].owner)
    assert owners.count(0) == 4


def test_large_requests_take_turns() -> None:
    line = Line(128)
    line.add(1, [LONG] * 5, WINDOW)
    line.add(2, [LONG] * 5, WINDOW)
    first = [line.next()[0].owner for _ in range(6)]
    assert first.count(1) == first.count(2) == 3


def test_small_requests_share_a_batch() -> None:
    line = Line(128)
    for owner in range(5):
        line.add(owner, [SHORT], WINDOW)
    assert len(line.next()) == 5


def test_what_is_dropped_is_not_encoded() -> None:
    line = Line(128)
    line.add(1, [LONG] * 9, WINDOW)
    line.add(2, [SHORT], WINDOW)
    line.drop(1)
    assert drained(line) == [[(2, 0)]]
    assert len(line) == 0


def test_texts_of_like_length_are_together() -> None:
    line = Line(128)
    line.add(1, [LONG, "a", LONG, "b", LONG, "c"], WINDOW)
    assert drained(line)[0] == [(1, 1), (1, 3), (1, 5)]


@given(st.text(max_size=5000))
def test_the_estimate_is_between_the_special_tokens_and_the_window(text: str) -> None:
    assert 2 < estimate(text, WINDOW) <= WINDOW
