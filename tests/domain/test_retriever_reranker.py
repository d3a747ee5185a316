"""Which passages are read again, how many fit into the time, and what becomes of the order; in virtual time."""

import math
from collections import deque
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from small_cross_encoder import passage

from hasten.messages.retrieve import Sentence
from hasten.retriever.reranker import (
    BATCH_TOKENS,
    FADE_S,
    LongQuestion,
    Pace,
    Progress,
    Window,
    batch,
    budget,
    fused,
    pieces,
    read,
    windows,
)
from hasten.retriever.rerankers.model import RerankError, relevance, relevant_label


class Words:
    """A model whose tokens are words, that counts the question's in a passage; a token takes a fixed time."""

    window, special = 64, 3

    def __init__(self, ms_per_token: float = 0.0) -> None:
        self.now_s, self._s = 100.0, ms_per_token / 1000
        self.batches: list[list[str]] = []

    def tokens(self, text: str) -> list[tuple[int, int]]:
        spans, at = [], 0
        for word in text.split(" "):
            spans.append((at, at + len(word)))
            at += len(word) + 1
        return [(start, end) for start, end in spans if end > start]

    def logits(self, question: str, passages: list[str]) -> NDArray[np.float32]:
        sizes = [len(self.tokens(question)) + len(self.tokens(one)) + self.special for one in passages]
        assert max(sizes) <= self.window, "nothing that is read is cut"
        self.now_s += self._s * max(sizes) * len(passages)
        self.batches.append(passages)
        asked = question.split()
        return np.array([[sum(word in one.split() for word in asked)] for one in passages], dtype=np.float32)

    def clock(self) -> float:
        return self.now_s


def reading(model: Words, question: str, found: list[str], ms: float, pace: Pace | None = None) -> Progress:
    progress = Progress()
    listed = [passage(at, text, 1 - at / 100) for at, text in enumerate(found)]
    read(model, 0, question, listed, progress, pace or Pace(), model.now_s + ms / 1000, model.clock)
    return progress


def test_a_hundred_long_candidates_are_bounded_by_the_time() -> None:
    """150 ms for 100 passages of 4,000 characters: the best ones are read, and the time is overrun by nothing."""
    model, pace = Words(ms_per_token=0.1), Pace()
    pace.learn(100, 10, model.now_s)
    began = model.now_s
    progress = reading(model, "pump", ["word " * 800] * 100, 150, pace)
    assert model.now_s - began <= 0.150 + 1e-9
    assert 0 < len(progress.scores) < 100
    assert sorted(progress.scores) == list(range(len(progress.scores))), "the best by vector come first"


def test_a_machine_that_turns_slow_costs_one_batch_at_most() -> None:
    model, pace = Words(ms_per_token=50), Pace()
    pace.learn(100, 1, model.now_s)
    reading(model, "pump", ["some words here"] * 40, 35, pace)
    assert len(model.batches) == 1
    assert pace.expected_ms(10, model.now_s) > 35
    assert reading(model, "pump", ["some words here"] * 40, 35, pace).scores == {}, "not one fits: none is tried"
    assert len(model.batches) == 1
    model.now_s += 10 * FADE_S
    reading(model, "pump", ["some words here"] * 40, 35, pace)
    assert len(model.batches) == 2, "after a while it is tried again"


@pytest.mark.parametrize("place", [0, 40, 140, 1200, 3000])
def test_what_is_far_behind_in_a_passage_counts_as_much(place: int) -> None:
    words = ["filler"] * 3200
    words[place : place + 4] = ["orka", "pump", "costs", "eighty"]
    progress = reading(Words(), "orka pump costs eighty", ["other things", " ".join(words)], 1000)
    assert progress.scores == {0: 0.0, 1: 4.0}


def test_pieces_overlap_cover_everything_and_fit() -> None:
    text = " ".join(f"w{number}" for number in range(500))
    tokens = Words().tokens(text)
    made = list(pieces(text, tokens, 50))
    assert {at for first, last in made for at in range(first, last)} == set(range(500))
    assert all(last - first <= 50 for first, last in made)
    assert all(before[1] > after[0] for before, after in pairwise(made))
    assert list(pieces("", [], 50)) == []
    halved = [(at, at + 1) for at in range(100)]
    assert len(list(pieces("x" * 100, halved, 30))) < 100, "a text without spaces goes forward too"


def test_where_sentences_have_been_compared_the_nearest_one_is_read() -> None:
    text = " ".join(["filler"] * 300 + ["orka", "pump"] + ["filler"] * 300)
    at = text.index("orka")
    near = passage(
        0, text, 1.0, sentences=[Sentence(start=0, end=30, score=0.1), Sentence(start=at, end=at + 9, score=0.8)]
    )
    (window,) = windows(Words(), 4, near, 0)
    assert "orka pump" in window.text


def test_title_and_heading_are_read_along_unless_they_are_long() -> None:
    short = passage(0, "costs eighty", 1.0, title="Orka", heading="Pumps")
    assert windows(Words(), 2, short, 0)[0].text == "Orka\nPumps\ncosts eighty"
    assert windows(Words(), 2, passage(0, "costs eighty", 1.0, title="t " * 30), 0)[0].text == "costs eighty"


def test_the_question_is_never_cut() -> None:
    with pytest.raises(LongQuestion):
        reading(Words(), "word " * 40, ["a", "b"], 1000)
    with pytest.raises(LongQuestion):
        reading(Words(), "x" * 100_000, ["a", "b"], 1000)


def test_a_batch_begins_with_the_best_and_takes_its_like() -> None:
    line = deque([Window(0, "", 40), Window(1, "", 10), Window(2, "", 42), Window(3, "", 60), Window(4, "", 38)])
    assert [one.passage for one in batch(line, BATCH_TOKENS)] == [0, 2, 4]
    assert [one.passage for one in line] == [1, 3]
    assert [one.passage for one in batch(line, 5)] == [1], "one is always taken"


def test_the_time_is_the_operators_or_a_share_of_what_is_left() -> None:
    assert budget(35, 60_000) == (35, False)
    assert budget(35, 100) == (10, True)
    assert budget(35, 0) == (0, True)


def test_scores_are_fused_and_what_was_not_read_keeps_its_order() -> None:
    found = [passage(at, str(at), score) for at, score in enumerate([0.8, 0.7, 0.6, 0.5, 0.4])]
    turned = fused(found, {0: -3.0, 1: 0.0, 2: 3.0}, 1.0)
    assert [one.document for one in turned][:1] == ["2"]
    assert [one.document for one in turned if one.document in "34"] == ["3", "4"]
    assert [one.score for one in turned] == sorted((one.score for one in turned), reverse=True)
    assert {one.document: one.score for one in turned}["3"] == 0.5
    assert fused(found, {0: -3.0, 1: 0.0, 2: 3.0}, 0.0) == found
    assert fused(found, {0: 1.0}, 1.0) == found, "one alone cannot be compared"
    assert len(fused(found, {0: 1.0, 1: 1.0}, 0.5)) == 5


def test_a_model_of_several_labels_is_read_by_the_one_that_says_relevant() -> None:
    class Second(Words):
        window = 512

        def logits(self, question: str, passages: list[str]) -> NDArray[np.float32]:
            shared = super().logits(question.lower().strip("?"), [one.lower() for one in passages])
            return np.concatenate([-shared, shared, 0 * shared], axis=1)

    assert relevant_label(Second()) == 1
    assert math.isclose(relevance(np.array([[0.0, 2.0]], dtype=np.float32), 1)[0], 2.0)


def test_a_model_that_cannot_tell_is_refused() -> None:
    class Constant(Words):
        def logits(self, question: str, passages: list[str]) -> NDArray[np.float32]:
            return np.zeros((len(passages), 1), dtype=np.float32)

    with pytest.raises(RerankError):
        relevant_label(Constant())
