"""The figures of compression on cases that can be checked by hand, and the command on small data as published."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from hasten.compressor.byte_estimate import ByteEstimate
from hasten.messages.retrieve import Passage
from loadtest import compression_answers, compression_quality
from loadtest.compression_cases import Case, Fact, Vectors, holds
from loadtest.compression_ways import SIMPLE, by_rank, cut, task

TEXT = "Rain fell. Ada Berg wrote it. Snow fell."
PASSAGE = Passage(id="p", collection="c", document="d", text=TEXT, start=100, end=100 + len(TEXT))
CASE = Case(question="Who wrote it?", passages=[PASSAGE], facts=[])


def test_a_fact_is_there_when_one_of_its_texts_is_or_all_of_its_stretch() -> None:
    kept = {"p": [(111, 129)]}
    assert TEXT[11:29] == "Ada Berg wrote it."
    assert holds(kept, CASE, Fact(texts=["nobody", "ada berg"]))
    assert not holds(kept, CASE, Fact(texts=["Snow"]))
    assert holds(kept, CASE, Fact(document="d", start=111, end=129))
    assert not holds(kept, CASE, Fact(document="d", start=100, end=129))
    assert not holds(kept, CASE, Fact(document="another", start=111, end=129))
    assert holds({"p": [(100, 110), (111, 129)]}, CASE, Fact(document="d", start=100, end=129))


def test_truncation_keeps_the_beginning_and_no_way_is_over_the_budget() -> None:
    one = task(CASE, ByteEstimate())
    document = one.documents[0]
    budget = one.bare + document.size([0, 1])
    assert cut(one, by_rank(one), budget) == {"p": [(100, 129)]}
    assert all(
        sum(end - start for start, end in cut(one, worth(one), budget).get("p", [])) <= 29 for worth in SIMPLE.values()
    )


def test_an_interval_holds_the_mean_of_the_differences() -> None:
    mean, low, high = compression_quality.interval(np.array([1.0, 0, 0, 0, -1, 1, 1, 1]))
    assert low <= mean == 0.375 <= high
    assert compression_quality.interval(np.zeros(5)) == (0, 0, 0)


def _encode(texts: list[str], spans: list[list[tuple[int, int]]]) -> tuple[Vectors, list[Vectors]]:
    """Letters counted: enough for a nearness that can be computed without a model."""

    def vector(text: str) -> Vectors:
        counts = np.array([1 + text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"], dtype=np.float32)
        return counts / np.float32(np.linalg.norm(counts))

    whole = np.array([vector(text) for text in texts])
    return whole, [
        np.array([vector(text[start:end]) for start, end in each], dtype=np.float32).reshape(-1, 26)
        for text, each in zip(texts, spans, strict=False)
    ]


def test_the_command_reports_what_is_kept_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = []
    for number, name in enumerate(("Ada Berg", "Bo Lund", "Cy Moe", "Di Nor", "Eva Fjord", "Finn Holm")):
        text = f"The song {number} is old. It was written by {name}. Many have sung it since then in the north."
        rows.append(
            {
                "question": f"who wrote song {number}",
                "answers": [name],
                "ctxs": [{"title": f"Song {number}", "text": text}],
            }
        )
    (tmp_path / "nq_open_oracle").mkdir()
    (tmp_path / "nq_open_oracle" / "nq-open-oracle.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(compression_quality, "real", lambda data: _encode)
    command = ["x", "--data", str(tmp_path), "--models", str(tmp_path), "--cache", str(tmp_path / "v"), "--half", "all"]
    monkeypatch.setattr(sys, "argv", [*command, "--json"])
    reports = []
    for _ in range(2):
        assert compression_quality.main() == 0
        report = json.loads(capsys.readouterr().out)
        reports.append(report["rows"])
    assert reports[0] == reports[1]
    assert any((tmp_path / "v").iterdir())
    assert {row["questions"] for row in report["rows"]} == {6}
    assert all(0 <= row["whole"] <= row["facts"] <= 1 for row in report["rows"])
    assert any("hotpot100" in reason for reason in report["skipped"])


def test_without_data_the_command_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compression_quality, "real", lambda data: _encode)
    monkeypatch.setattr(sys, "argv", ["x", "--data", str(tmp_path), "--models", str(tmp_path)])
    assert compression_quality.main() == 2
    assert "--data" in capsys.readouterr().err


def test_answers_without_data_are_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["compression_answers", "--data", str(tmp_path), "--models", str(tmp_path)])
    assert compression_answers.main() == 2
    assert "nq-open-oracle.jsonl is not there" in capsys.readouterr().err
