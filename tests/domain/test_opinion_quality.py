"""What is measured of second opinions: the pairs are read and split as said, and the figures count what they name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import word_overlap

from hasten.cache.opinions.model import ALIKE, FAR
from loadtest.opinion_pairs import halves, mined
from loadtest.opinion_quality import auc, curve, measured
from loadtest.pairs import Labelled, Pair

ALL = np.ones(6, dtype=bool)
SAME = np.array([True, True, False, True, False, False])
FALLING = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])


def words(texts: list[str]) -> Any:
    """A bag of words as a unit vector."""
    rows = np.zeros((len(texts), 64), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in text.lower().split():
            row[sum(map(ord, word)) % 64] += 1
        row /= np.linalg.norm(row)
    return rows


def test_the_curve_takes_as_much_as_the_bound_on_wrong_hits_allows() -> None:
    assert curve(FALLING, SAME, ALL)["5% wrong"] == {"right": round(2 / 3, 3), "at": 0.8}
    assert curve(FALLING, SAME, ALL & (FALLING != 0.7))["1% wrong"] == {"right": 1.0, "at": 0.6}
    assert curve(-FALLING, SAME, ALL)["5% wrong"] == {"right": 0.0, "at": None}
    assert curve(FALLING, SAME, ~ALL)["1% wrong"] == {"right": 0.0, "at": None}


def test_auc_is_the_chance_that_a_right_pair_scores_higher() -> None:
    assert auc(FALLING, SAME) == pytest.approx(8 / 9)
    assert auc(np.zeros(6), SAME) == 0.5


def test_halves_share_no_first_question() -> None:
    pairs = [Pair(a=f"q{at % 10}", b=str(at), same=True) for at in range(40)]
    ours, theirs = halves(pairs)
    assert len(ours) == len(theirs) == 20
    assert {pair.a for pair in ours}.isdisjoint(pair.a for pair in theirs)
    assert halves(pairs) == (ours, theirs)


def test_labels_become_near_pairs_of_the_same_and_of_others() -> None:
    groups = {"card": ["lost card", "my card is lost", "card gone"], "rate": ["card rate", "which rate", "the rate"]}
    of = {text: label for label, texts in groups.items() for text in texts}
    pairs = mined([Labelled(text=text, label=label) for text, label in of.items()], 6, words)
    assert len(pairs) == 12
    assert all((of[pair.a] == of[pair.b]) == pair.same and pair.a != pair.b for pair in pairs)
    assert sum(pair.same for pair in pairs) == 6


def test_a_model_is_measured_with_and_without_the_guards(tmp_path: Path) -> None:
    word_overlap.write(tmp_path)
    pairs = [Pair(a=a, b=b, same=True) for a, b in ALIKE]
    pairs += [Pair(a=a, b=b, same=False) for a, b in FAR]
    pairs.append(Pair(a="How do I reset my password?", b="How do I not reset my password?", same=False))
    found = measured(pairs, f"onnx:{tmp_path}", words)
    assert (found["pairs"], found["same"]) == (9, 4)
    assert 0 < found["not guarded"]["same"] <= 4
    assert found["not guarded"]["different"] < 5
    assert found["opinion, guards"]["1% wrong"]["right"] > found["opinion alone"]["1% wrong"]["right"]
    assert found["latency_ms"]["p50"] > 0
