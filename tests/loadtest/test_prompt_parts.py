"""The figures of history, examples and counting on cases that can be checked by hand, in the published form of data."""

import csv
import json
import sys
from pathlib import Path

import pytest
from tokenizer_rig import smollm2

from hasten.compressor.hf_tokenizer import HfTokenizer
from hasten.messages.chat import Turn
from loadtest import example_quality, history_quality, token_estimate
from loadtest.conversations import Asked, chats, meetings
from loadtest.prompt_counting import drawn

__all__ = ["smollm2"]
FACT = "The budget of the remote control is 12 euros and 50 cents."


def qmsum(folder: Path) -> Path:
    """Two meetings of which one question each asks for what was said at the beginning."""
    said = [{"speaker": "A", "content": f"Nothing of interest was said in minute {at} of the day."} for at in range(80)]
    said[3] = {"speaker": "B", "content": FACT}
    query = {"query": "What is the budget of the remote control?", "answer": "", "relevant_text_span": [["3", "3"]]}
    row = json.dumps({"meeting_transcripts": said, "specific_query_list": [query]})
    (folder / "qmsum").mkdir()
    (folder / "qmsum" / "val.jsonl").write_text(f"{row}\n{row}\n")
    return folder


def test_meetings_and_chats_say_which_turns_are_needed(tmp_path: Path) -> None:
    (first, second) = meetings(qmsum(tmp_path))
    assert (first.group, second.group, first.gold, len(first.turns)) == (0, 1, [3], 81)
    assert first.turns[3].content == f"B: {FACT}"
    (tmp_path / "fow_cache" / "conv-long").mkdir(parents=True)
    same = [{"role": "assistant", "content": "Sure."}, {"role": "user", "content": "Cancel it."}]
    row = {name: [{"role": "user", "content": f"My {name}"}, *same] for name in ("a", "b")}
    for name in ("billing", "retail"):
        (tmp_path / "fow_cache" / "conv-long" / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    assert [(one.group, one.gold) for one in chats(tmp_path)] == [(0, [0]), (0, [0]), (1, [0]), (1, [0])]


def test_the_newest_turns_lose_what_recall_keeps(
    tmp_path: Path, smollm2: HfTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_quality, "BUDGETS", {"qmsum": (300,)})
    rows = history_quality.measured("qmsum", meetings(qmsum(tmp_path)), smollm2)
    assert {row.way: row.gold for row in rows} == {
        "newest turns": 0.0,
        "telling sentences": 1.0,
        "without recall": 0.0,
        "hasten": 1.0,
    }
    assert all(row.tokens <= 300 for row in rows)


def test_what_repeats_is_the_prompts_beginning(smollm2: HfTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_quality, "ROUNDS", 6)
    turns = [Turn(role=("user", "assistant")[at % 2], content=f"word {at}") for at in range(13)]
    found = history_quality.prefixes([Asked(group=0, turns=turns, gold=[])], smollm2)
    assert len({one.repeated for one in found}) == 1, "all fits: every way repeats all but the last round"
    assert 0.5 < found[0].repeated < 1


def test_examples_of_the_questions_kind(tmp_path: Path) -> None:
    (tmp_path / "banking77").mkdir()
    with (tmp_path / "banking77" / "train.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "category"), *((f"question {at}", str(at % 3)) for at in range(9))])
    shown, asked, outside = example_quality.banking(tmp_path)
    assert (len(shown), len(asked), outside) == (5, 4, [])
    found = example_quality.pools((shown * 80, asked * 80, []), 1)
    assert len(found) == example_quality.POOLS
    assert found == example_quality.pools((shown * 80, asked * 80, []), 1)


@pytest.mark.parametrize("module", [history_quality, example_quality])
def test_absent_data_is_skipped_with_a_reason(
    module: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    models = Path(__file__).parents[2] / ".hasten"
    monkeypatch.setattr(sys, "argv", ["x", "--data", str(tmp_path), "--models", str(models), "--json"])
    assert module.main() == 0  # type: ignore[attr-defined]
    report = json.loads(capsys.readouterr().out)
    assert len(report["skipped"]) == 2
    assert "is not there" in report["skipped"][0]


def test_the_estimate_is_no_less_than_the_embedded_tokenizer_counts(smollm2: HfTokenizer) -> None:
    path = Path(__file__).parents[2] / ".hasten" / "models" / "smollm2" / "tokenizer.json"
    assert all(row.least >= (0.95 if row.kind == "awkward" else 1.0) for row in token_estimate.measured(path))


def test_drawn_prompts_are_the_same_again() -> None:
    assert drawn(7) == drawn(7) != drawn(8)
