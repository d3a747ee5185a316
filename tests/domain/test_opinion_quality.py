"""What is measured of second opinions: the pairs are read and split as said, and the figures count what they name."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import word_overlap

from hasten.cache.opinions.model import ALIKE, FAR
from loadtest.opinion_pairs import Pair, banking77, clinc150, fow_cache, halves, medical_question_pairs, mined
from loadtest.opinion_quality import auc, curve, measured

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
    pairs = [Pair(a=f"q{at % 10}", b=str(at), same=True, source="x") for at in range(40)]
    ours, theirs = halves(pairs)
    assert len(ours) == len(theirs) == 20
    assert {pair.a for pair in ours}.isdisjoint(pair.a for pair in theirs)
    assert halves(pairs) == (ours, theirs)


def test_labels_become_near_pairs_of_the_same_and_of_others() -> None:
    groups = {"card": ["lost card", "my card is lost", "card gone"], "rate": ["card rate", "which rate", "the rate"]}
    of = {text: label for label, texts in groups.items() for text in texts}
    pairs = mined(groups, "bank", 6, words)
    assert len(pairs) == 12
    assert all((of[pair.a] == of[pair.b]) == pair.same and pair.a != pair.b for pair in pairs)
    assert sum(pair.same for pair in pairs) == 6


def test_the_files_are_read_as_they_are_published(tmp_path: Path) -> None:
    for name in ("fow_cache", "medical_question_pairs", "banking77", "clinc150"):
        (tmp_path / name).mkdir()
    row = {"id": "x", "category": "scope", "a": "One?", "b": "Two?", "same_answer": False}
    (tmp_path / "fow_cache" / "pairs.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "medical_question_pairs" / "mqp.csv").write_text('1,"Is it, a cold?",Do I have a cold?,1\n')
    (tmp_path / "banking77" / "train.csv").write_text('text,category\n"Where, is it?",arrival\n')
    clinc = {"train": [["hello", "greeting"], ["what", "oos"]], "val": [["hi", "greeting"]], "oos_val": []}
    (tmp_path / "clinc150" / "data_full.json").write_text(json.dumps(clinc))
    assert fow_cache(tmp_path) == [Pair(a="One?", b="Two?", same=False, source="fow_cache")]
    medical = Pair(a="Is it, a cold?", b="Do I have a cold?", same=True, source="medical_question_pairs")
    assert medical_question_pairs(tmp_path) == [medical]
    assert banking77(tmp_path) == {"arrival": ["Where, is it?"]}
    assert clinc150(tmp_path) == {"greeting": ["hello", "hi"]}


def test_a_model_is_measured_with_and_without_the_guards(tmp_path: Path) -> None:
    word_overlap.write(tmp_path)
    pairs = [Pair(a=a, b=b, same=True, source="x") for a, b in ALIKE]
    pairs += [Pair(a=a, b=b, same=False, source="x") for a, b in FAR]
    pairs.append(Pair(a="How do I reset my password?", b="How do I not reset my password?", same=False, source="x"))
    found = measured(pairs, f"onnx:{tmp_path}", words)
    assert (found["pairs"], found["same"]) == (9, 4)
    assert 0 < found["not guarded"]["same"] <= 4
    assert found["not guarded"]["different"] < 5
    assert found["opinion, guards"]["1% wrong"]["right"] > found["opinion alone"]["1% wrong"]["right"]
    assert found["latency_ms"]["p50"] > 0
