"""The measurement of retrieval: figures against ones made by hand, the split, and the command on a small folder."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from indexed_words import DIM, MODEL, hashed
from retriever_rig import running

from hasten.bus import Bus
from hasten.embedder.encoder import Encoded
from hasten.messages.retrieve import Passage
from hasten.retriever.settings import Settings
from loadtest import retrieval_quality
from loadtest.retrieval_metric import characters, gain, judged, mean, ndcg, recall
from loadtest.retrieval_sets import Corpus, Place, corpora
from loadtest.retrieval_shelf import LIMIT, Shelf
from loadtest.vector_file import VectorFile


class HashedWords:
    """An encoder without a model; `texts` are those that it was asked for."""

    name, dim, window = MODEL, DIM, 256

    def __init__(self) -> None:
        self.texts: list[str] = []

    def encode(self, texts: list[str], spans: object = ()) -> Encoded:
        self.texts += texts
        return Encoded(
            vectors=np.array([hashed(text) for text in texts]), tokens=[1] * len(texts), truncated=[False] * len(texts)
        )


def passage(document: str, start: int, end: int) -> Passage:
    return Passage(
        id=f"{document}#{start}", collection="c", document=document, text="x" * (end - start), start=start, end=end
    )


def test_recall_and_ndcg_are_what_one_gets_by_hand() -> None:
    met = [set[int](), {0}, {0}, {1}]
    assert [recall(met, 2, count) for count in (1, 2, 3, 4)] == [0, 0.5, 0.5, 1]
    assert ndcg(met, 2, 10) == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3)))
    assert ndcg(met, 2, 3) == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))
    assert (ndcg([{0}, {1}], 2, 10), ndcg([], 2, 10)) == (1, 0)


def test_a_passage_is_right_where_it_overlaps_what_answers() -> None:
    order = [passage("a", 0, 10), passage("b", 5, 9), passage("a", 10, 20)]
    found = judged(order, [Place("a", 10, 15)], spans=True)
    assert [found.mrr, found.recall_1, found.recall_5] == pytest.approx([1 / 3, 0, 1])
    assert judged(order, [Place("b")], spans=False).mrr == 0.5
    assert judged(order, [Place("c")], spans=False).mrr == 0


def test_characters_are_counted_up_to_the_budget_and_once() -> None:
    order = [passage("a", 0, 60), passage("a", 50, 110)]
    assert characters(order, [Place("a", 40, 100)], 100) == pytest.approx((50 / 60, 50 / 90, 50 / 100))
    assert characters(order, [Place("a", 40, 100), Place("a", 90, 95)], 1000) == pytest.approx((1, 60 / 110, 60 / 110))
    assert characters([], [Place("a", 0, 5)]) == (0, 0, 0)


def test_a_gain_comes_with_an_interval_of_the_same_questions() -> None:
    assert gain([1, 0.5, 0], [1, 0.5, 0]) == (0, 0, 0)
    middle, low, high = gain([1.0] * 30 + [0.0] * 10, [0.0] * 40)
    assert low < middle == 0.75 < high
    assert (middle, low, high) == gain([1.0] * 30 + [0.0] * 10, [0.0] * 40)


def test_means_leave_out_what_some_do_not_have() -> None:
    both = [judged([], [Place("a", 0, 5)], spans=True), judged([passage("a", 0, 5)], [Place("a", 0, 5)], spans=True)]
    assert (mean(both).mrr, mean(both).chars_recall) == (0.5, 0.5)
    assert mean([*both, judged([], [Place("a")], spans=False)]).chars_recall is None


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a few paragraphs as XQuAD has them, each with two questions."""
    subjects = ["harbour crane", "violin string", "copper kettle", "glacier melt", "printing press", "beekeeping hive"]
    paragraphs = [
        {
            "context": f"This paragraph is about the {name}. The {name} was first described in {1800 + at}.",
            "qas": [
                {"question": f"When was the {name} described?", "answers": [{"text": str(1800 + at)}]},
                {"question": f"What is said of the {name}?", "answers": [{"text": name}]},
            ],
        }
        for at, name in enumerate(subjects * 3)
    ]
    (tmp_path / "data" / "xquad_en").mkdir(parents=True)
    content = json.dumps({"data": [{"paragraphs": paragraphs}]})
    (tmp_path / "data" / "xquad_en" / "xquad.en.json").write_text(content)
    return tmp_path / "data"


def test_questions_of_one_paragraph_are_in_one_half_and_what_is_missing_is_named(data: Path) -> None:
    found, skipped = corpora(data)
    assert [one.name for one in found] == ["xquad_en"]
    halves = {question.group: set[bool]() for question in found[0].questions}
    for question in found[0].questions:
        halves[question.group].add(question.measured)
    assert {len(half) for half in halves.values()} == {1}
    assert {True, False} == {flag for half in halves.values() for flag in half}
    assert any(reason.startswith("qmsum: ") and "is not there" in reason for reason in skipped)


async def test_what_is_measured_is_what_the_service_answers(bus: Bus, data: Path, tmp_path: Path) -> None:
    whole = corpora(data)[0][0]
    corpus = Corpus(name=whole.name, documents={"all": whole.documents["all"]}, questions=whole.questions[:8])
    shelf = Shelf(corpus, VectorFile(HashedWords(), None), tmp_path / "shelf", Settings())
    await shelf.open(DIM)
    try:
        orders, _ = await shelf.orders(corpus.questions, Settings().lexical_weight)
    finally:
        await shelf.close()
    async with running(bus, tmp_path / "service", url="embedded") as rig:
        for document in corpus.documents["all"]:
            await rig.put(document, collection="all")
        for question, order in zip(corpus.questions, orders, strict=True):
            found = await rig.found(question.text, knowledge=["all"], limit=LIMIT)
            assert {one.id: one.score for one in found} == pytest.approx({one.id: one.score for one in order}, abs=1e-5)
            assert sorted((one.score for one in found), reverse=True) == [one.score for one in found]


def test_the_command_measures_what_is_there(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(retrieval_quality, "load", lambda _: HashedWords())
    monkeypatch.setattr(
        sys, "argv", ["retrieval_quality", "--data", str(data), "--cache", str(tmp_path / "kept"), "--json"]
    )
    assert retrieval_quality.main() == 0
    report = json.loads(capsys.readouterr().out)
    ways = {row["way"]: row for row in report["rows"]}
    assert {"vectors", "words", "both", "vectors, without small-to-big", "both, without small-to-big"} == set(ways)
    assert ways["words"]["figures"]["recall_10"] > 0.9
    assert ways["both"]["gain"][1] <= ways["both"]["gain"][0] <= ways["both"]["gain"][2]
    assert report["trials"][0]["lexical"].keys() >= {"0", "0.15", "1"}
    assert any(reason.startswith("reranking") for reason in report["skipped"])


def test_without_data_nothing_is_measured_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["retrieval_quality", "--data", str(tmp_path)])
    assert retrieval_quality.main() == 2
    assert "none of the data sets" in capsys.readouterr().err


def test_a_text_is_embedded_once_whatever_run_asks(tmp_path: Path) -> None:
    encoder = HashedWords()
    first = VectorFile(encoder, tmp_path).of(["one", "two", "one"])
    again = HashedWords()
    assert (VectorFile(again, tmp_path).of(["two", "three"])[0] == first[1]).all()
    assert again.texts == ["three"]
