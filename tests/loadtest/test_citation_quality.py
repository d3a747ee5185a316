"""Cases made of public data, on a small copy of its shape."""

import json
import subprocess
import sys
from pathlib import Path

from loadtest.citation_claims import cases
from loadtest.citation_quality import balanced, fitted, rows

GOLD = "In 1901 the first prize in physics was awarded to Wilhelm Winter, of Germany. John Bardeen has won it twice."
NEAR = "The peace prize was awarded to Henry Dunant in Oslo by a committee of 5 members of the parliament."


def write(folder: Path) -> None:
    row = {
        "question": "who got the first prize in physics",
        "answers": ["Wilhelm Winter"],
        "ctxs": [
            {"title": "Prizes", "text": GOLD, "isgold": True, "hasanswer": True},
            {"title": "Peace", "text": NEAR},
        ],
    }
    hotpot = {
        "context": str({"title": ["Prizes", "Peace"], "sentences": [[GOLD], [NEAR]]}),
        "supporting_facts": str({"title": ["Prizes"], "sent_id": [0]}),
    }
    asked = {"question": "When was the first prize awarded?", "answers": [{"text": "1901"}]}
    xquad = {"data": [{"paragraphs": [{"context": GOLD, "qas": [asked]}, {"context": NEAR, "qas": []}]}]}
    for name, body in (
        ("nq_open_oracle/nq-open-oracle.jsonl", json.dumps(row)),
        ("hotpot100/hotpot100.jsonl", json.dumps(hotpot)),
        ("xquad_en/xquad.en.json", json.dumps(xquad)),
    ):
        (folder / name).parent.mkdir()
        (folder / name).write_text(body + "\n")


def test_cases_are_altered_where_they_say_so(tmp_path: Path) -> None:
    write(tmp_path)
    made = list(cases(tmp_path))
    by_kind = {case.kind: case.said for case in made if case.source == "nq_open_oracle"}
    assert by_kind["stated"] == "Wilhelm Winter got the first prize in physics."
    assert "1901" not in by_kind["figure"]
    assert "was not awarded" in by_kind["negated"]
    assert all(case.passage.text == NEAR for case in made if case.kind == "swapped")
    assert [case.said for case in made] == [case.said for case in cases(tmp_path)]
    assert fitted(made) < 1
    report = rows(made, 0.4)
    kept, caught = balanced(report)
    assert {row.kind: row.found for row in report if row.source == "all"}["figure"] == 0
    assert (kept, caught) > (0.9, 0.5)


def test_without_the_data_it_is_skipped_with_the_reason(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadtest.citation_quality", "--data", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("skipped: ")
    assert "is not there" in ran.stdout
