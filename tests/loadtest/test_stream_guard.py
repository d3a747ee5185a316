"""The measurement of what rules add to a chunk, for a moment."""

import json
import subprocess
import sys
from pathlib import Path

from hasten.orchestrator.guard.rule import automaton, check
from loadtest.stream_guard import kinds


def test_every_rule_that_is_measured_can_be_kept() -> None:
    for rules in kinds().values():
        check(rules)
        for rule in rules:
            assert not rule.pattern or automaton(rule)
    assert [len(rules) for rules in kinds().values()] == [0, 1, 10, 50, 1, 1]


def test_a_row_for_each_kind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadtest.stream_guard", "--streams", "2", "--chunks", "3", "--rate", "200"]
    subprocess.run([*command, "--json", str(tmp_path / "rows.json")], capture_output=True, check=True)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["rules"] for row in rows] == list(kinds())
    assert all(row["chunks"] == 6 for row in rows)
