"""The figures of routing on cases that can be checked by hand, and the commands on small data in the published form."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import hasten.router
from hasten.router.estimator import Estimator, directions, shipped, unpacked
from hasten.router.surface import FEATURES
from loadtest import routing_quality, train_difficulty
from loadtest.gain import by_question, by_subject, guesses, trained
from loadtest.gap import apgr, calls, curve, recovered
from loadtest.graded import STRONG, WEAK, graded, mark, others, sample
from loadtest.pairs import DataError

GAINS = np.array([1.0, 0.0, -1.0, 1.0, 0.0, 1.0])


def test_a_perfect_order_recovers_the_gap_first_and_the_worst_last() -> None:
    shares, won = curve(GAINS, GAINS)
    assert shares.tolist() == pytest.approx([0, 3 / 6, 5 / 6, 1])
    assert won.tolist() == pytest.approx([0, 1.5, 1.5, 1])
    assert calls(shares, won, 0.5) == pytest.approx(1 / 6)
    assert calls(shares, won, 0.8) == pytest.approx(1.6 / 6)
    assert apgr(*curve(-GAINS, GAINS)) < 0.5 < apgr(shares, won)


def test_equal_scores_are_worth_what_chance_is_whatever_their_order() -> None:
    for gains in (GAINS, GAINS[::-1].copy()):
        assert apgr(*curve(np.zeros(6), gains)) == pytest.approx(0.5)
    half = np.array([1, 1, 1, 0, 0, 0.0])
    assert apgr(*curve(half, GAINS)) == pytest.approx(apgr(*curve(half, GAINS[[2, 1, 0, 5, 4, 3]])))


def test_a_question_that_is_there_twice_counts_twice() -> None:
    counts = np.array([2.0, 1, 0, 1, 1, 1])
    scores = np.arange(6.0)
    again = np.repeat(np.arange(6), counts.astype(int))
    assert apgr(*curve(scores, GAINS, counts)) == pytest.approx(apgr(*curve(scores[again], GAINS[again])))


def test_an_interval_holds_the_figure_and_narrows_with_more_questions() -> None:
    few = recovered(np.tile([3.0, 2, 1, 0], 10), np.tile([1.0, 0, 1, 0], 10), 200)
    many = recovered(np.tile([3.0, 2, 1, 0], 200), np.tile([1.0, 0, 1, 0], 200), 200)
    for found in (few, many):
        assert found.apgr_95[0] <= found.apgr <= found.apgr_95[1]
    assert many.apgr_95[1] - many.apgr_95[0] < few.apgr_95[1] - few.apgr_95[0]


def test_parts_keep_a_question_and_a_subject_together() -> None:
    texts = [f"question {number}" for number in range(100)]
    folds = by_question([*texts, *texts])
    assert (folds[:100] == folds[100:]).all()
    assert set(folds) == {0, 1, 2, 3, 4}
    parts = by_subject(["a", "b", "a", "c"], 2)
    assert parts[0] == parts[2] != parts[1]


def test_what_is_learnt_is_the_gain_and_where_it_is_known() -> None:
    """Where the strong model is better near one direction only, the guess says so for points it has not seen."""
    rng = np.random.default_rng(0)
    middles = directions(rng.normal(size=(2, 40)).astype(np.float32))
    kinds = np.arange(400) % 2
    vectors = directions(middles[kinds] + 0.05 * rng.normal(size=(400, 40)).astype(np.float32))
    values = rng.normal(size=(400, len(FEATURES))).astype(np.float32) * 0.1
    gains = (kinds & (rng.random(400) < 0.7)).astype(np.float64)
    made = guesses(vectors, values, gains, np.arange(400) // 80)
    assert made.gain[kinds == 1].mean() > made.gain[kinds == 0].mean() + 0.3
    assert abs(made.plain[kinds == 1].mean() - made.plain[kinds == 0].mean()) < 0.1, "the form tells nothing"
    artefact = trained(vectors, values, gains)
    estimator = Estimator(artefact)
    strange = directions(rng.normal(size=(100, 40)).astype(np.float32))
    assert (estimator.gains(vectors, values).likeness >= artefact.familiar).mean() > 0.9
    assert (estimator.gains(strange, values[:100] + 3).likeness >= artefact.familiar).mean() < 0.1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Data in the published form: two subjects of mmlu, with one prompt that is listed as contaminated."""
    home = tmp_path / "routellm_evals" / "mmlu"
    (home / "responses").mkdir(parents=True)
    for subject in ("law", "physics"):
        with (home / "responses" / f"mmlu_{subject}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["prompt", WEAK, STRONG])
            for number in range(12):
                text = f"Which {subject} is number {number}?\nA. one\nB. two\nAnswer:"
                writer.writerow([text, number % 2 == 0, number % 3 != 0 or number % 2 == 0])
    spoilt = "Which law is number 3?\nA. one\nB. two\nAnswer:"
    (home / "contaminated_prompts.jsonl").write_text(json.dumps({"eval_prompt": spoilt}) + "\n")
    return tmp_path


def test_questions_are_read_as_they_are_published(folder: Path) -> None:
    rows = graded(folder)["mmlu"]
    assert len(rows) == 23
    assert {row.subject for row in rows} == {"law", "physics"}
    five = next(row for row in rows if "law is number 5" in row.text)
    assert (five.weak, five.strong, five.gain) == (False, True, 1)
    found, skipped = others(folder)
    assert found == {}
    assert len(skipped) == 7
    assert all("is not there" in reason or "has no" in reason for reason in skipped)


def test_data_that_cannot_be_used_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match="neither mmlu"):
        graded(folder / "routellm_evals")
    (folder / "routellm_evals" / "mmlu" / "responses" / "mmlu_law.csv").write_text("prompt,other\nx,True\n")
    with pytest.raises(DataError, match=r"mmlu_law\.csv lacks"):
        graded(folder)


def test_a_sample_does_not_depend_on_the_order() -> None:
    texts = [f"text {number}" for number in range(1000)]
    assert sample(texts) == sample(texts[::-1])
    assert len(sample(texts)) == 300


class Hashing:
    """Vectors by the hash of a text: a stand-in for the embedding model, which has its own tests."""

    name = "hashing"

    def of(self, texts: list[str], what: str = "") -> dict[str, np.ndarray]:
        """The unit vector of each text."""
        made = [np.random.default_rng(int(mark(text), 16)).normal(size=(1, 384)) for text in texts]
        return {text: directions(one.astype(np.float32))[0] for text, one in zip(texts, made, strict=True)}


def test_the_commands_train_measure_and_say_what_was_fitted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (train_difficulty, routing_quality):
        monkeypatch.setattr(module, "Embedding", Hashing)
    out = folder / "made.npz"
    monkeypatch.setattr(sys, "argv", ["train_difficulty", "--data", str(folder), "--json", "--out", str(out)])
    assert train_difficulty.main() == 0
    told = json.loads(capsys.readouterr().out)
    assert told["fitted_on"] == {"mmlu": 23}
    assert {"mmlu, kept out by question, surface alone", "mmlu, kept out by subject, surface alone"} <= set(
        told["kept_out"]
    )
    assert json.loads(out.with_suffix(".json").read_text()) == told
    assert Estimator(unpacked(out.read_bytes())).dim == 384
    for flags in ([], ["--shipped"]):
        monkeypatch.setattr(sys, "argv", ["routing_quality", "--data", str(folder), "--json", *flags])
        assert routing_quality.main() == 0
        report = json.loads(capsys.readouterr().out)
        ways = {(row["way"], row["kept_out"]) for row in report["rows"]}
        assert ("random", "nothing fitted") in ways
        kept = "shipped: not fitted on these" if flags else "fitted on others: questions kept out"
        assert ("router's score", kept) in ways
        assert {floor["data"] for floor in report["floors"]} == {"mmlu"}
        assert all(0 <= floor["strong_calls"] <= 1 for floor in report["floors"])
        assert any("not English" in kind["name"] and kind["by_rule"] == 1 for kind in report["kinds"])
    monkeypatch.setattr(sys, "argv", ["routing_quality", "--data", str(folder / "nowhere")])
    assert routing_quality.main() == 2
    assert "neither mmlu" in capsys.readouterr().err


def test_the_shipped_report_belongs_to_the_shipped_artefact() -> None:
    whole = Path(hasten.router.__file__).parent
    told = json.loads((whole / "difficulty.json").read_text())
    assert len(told["questions"]) == sum(told["fitted_on"].values())
    assert told["chosen_by_hand"]["anchors"] == len(shipped().artefact.weights)
