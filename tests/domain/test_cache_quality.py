"""The quality report counts what it says it counts, on small data of the published forms."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from indexed_words import hashed

from hasten.cache.settings import Settings
from hasten.cache.verifier import shipped
from loadtest.cache_quality import Report, measured
from loadtest.embedding import Embedding
from loadtest.pairs import Labelled, Pair, mark
from loadtest.quality_plot import plot
from loadtest.streams import as_cache, by_similarity, stream

PAIRS = [
    ("How do I open the savings account?", "how can I open the savings account", True, "paraphrase"),
    ("How do I open the savings account?", "How do I close the savings account?", False, "negation"),
    ("What is the fee for 5 cards?", "What is the fee for 6 cards?", False, "number_date"),
    ("When does the shop in Oslo open?", "What time does the shop in Oslo open?", True, "paraphrase"),
    ("Where is my order right now?", "Where is my order right now?", True, "near_repeat"),
]
HERE = [{"role": "user", "content": "I have a flat."}, {"role": "assistant", "content": "Nice."}]


class Words(Embedding):
    """Vectors of hashed words, so that no model is needed."""

    def __init__(self) -> None:
        self.name = "hashed-words"

    def encode(self, texts: list[str]) -> Any:
        return np.stack([hashed(text) for text in texts])

    def of(self, texts: list[str], what: str = "") -> Any:
        return {text: hashed(text) for text in texts}


def written(folder: Path) -> Path:
    """fow_cache alone, pairs and one kind of conversations."""
    fow = folder / "fow_cache"
    (fow / "conv-parts").mkdir(parents=True)
    lines = [json.dumps({"a": a, "b": b, "same_answer": same, "category": kind}) for a, b, same, kind in PAIRS]
    (fow / "pairs.jsonl").write_text("\n".join(lines))
    ask = {"role": "user", "content": "Can I cancel it?"}
    other = [{"role": "user", "content": "I have a car."}, HERE[1], ask]
    talks = [{"a": [*HERE, ask], "b": other, "same_answer": False}]
    talks += [{"a": [*HERE, ask], "b": [*HERE, ask], "same_answer": True}]
    (fow / "conv-parts" / "x.jsonl").write_text("\n".join(map(json.dumps, talks)))
    return folder


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return measured(written(tmp_path_factory.mktemp("data")), Words())


def rows(report: Report, data: str, method: str) -> list[Any]:
    return [row for row in report.rows if (row.data, row.method) == (data, method)]


def test_the_shipped_row_counts_hits_and_traps_and_says_that_it_is_held_out(report: Report) -> None:
    (row,) = rows(report, "fow_cache", "hasten as shipped")
    assert (row.right, row.wrong, row.answerable, row.traps) == (2, 0, 3, 2)
    assert (row.good_hits, row.wrong_of_hits, row.traps_served) == (pytest.approx(2 / 3, abs=1e-4), 0.0, 0.0)
    assert row.kept_out == "held out: not fitted on any"
    assert row.threshold == Settings().threshold


def test_plain_cosine_serves_what_is_near_whatever_it_asks(report: Report) -> None:
    by_point = {row.point: row for row in rows(report, "fow_cache", "cosine")}
    assert by_point["≥ 0.80"].wrong == 2


def test_a_conversation_hits_only_with_its_whole_history(report: Report) -> None:
    (row,) = rows(report, "conversations, conv-parts", "hasten as shipped")
    assert (row.right, row.wrong, row.answerable, row.traps) == (1, 0, 1, 1)
    (plain,) = rows(report, "conversations, conv-parts", "cosine of the last message")
    assert (plain.right, plain.wrong) == (1, 1)


def test_what_is_missing_is_left_out_with_its_reason(report: Report) -> None:
    named = {reason.partition(":")[0] for reason in report.skipped}
    assert named == {"medical_question_pairs", "banking77", "clinc150", "conv-long"}


def test_the_plot_is_written(report: Report, tmp_path: Path) -> None:
    plot(report, tmp_path / "curves.svg")
    assert "<svg" in (tmp_path / "curves.svg").read_text()


def test_pairs_that_the_weights_were_fitted_on_are_known_again_either_way_round() -> None:
    one, turned = Pair(a="A?", b="B?", same=True), Pair(a="B?", b="A?", same=False)
    assert mark(one) == mark(turned) != mark(Pair(a="A?", b="C?", same=True))
    known = shipped().report["pairs"]
    assert isinstance(known, list)
    assert len(set(known)) == len(known) > 100


def test_a_stream_is_asked_against_what_came_before() -> None:
    texts = [
        ("How long is the return period for shoes?", "shoes"),
        ("how long is the return period for shoes", "shoes"),
        ("How long is the return period for boots?", "boots"),
    ]
    lines = [Labelled(text=text, label=label) for text, label in texts]
    vectors = {line.text: hashed("the same for all") for line in lines}
    plain = stream(lines, vectors, by_similarity(0.9), 5)
    assert (plain.right, plain.wrong, plain.answerable) == (1, 1, 1)
    ours = stream(lines, vectors, as_cache(lines, Settings(), shipped().weights), 5)
    assert (ours.right, ours.wrong, ours.answerable) == (1, 0, 1)
