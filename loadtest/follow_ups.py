"""How often the orchestrator sees whether a turn leans on those before it, on public conversations and questions.

    python -m loadtest.follow_ups --data DIR [--json] [--show]

The last turns of fow_cache's conversations: those with a history that has nothing to do with them stand alone
(`irrelevant_history`), all others lean. Questions of nq_open_oracle, XQuAD and banking77 stand alone. Beside it: what a
rule by length alone sees. The rules were written with the short conversations in view, not with the single questions.
`--show` lists the errors.
"""

import argparse
import csv
import json
import sys
from pathlib import Path

import msgspec

from hasten.orchestrator.follow_up import leans

SHORT = 10
"""Words of a turn that length alone would take for a follow-up."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Turns of one kind, and the share that was seen as what it is: by the words, and by length alone."""

    data: str
    leaning: bool
    turns: int
    right: float
    by_length: float


def conversations(folder: Path) -> dict[tuple[str, bool], list[str]]:
    """The last turns by file, and whether they lean."""
    found: dict[tuple[str, bool], list[str]] = {}
    for file in sorted(folder.glob("fow_cache/conv-*/*.jsonl")):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            key = (f"{file.parent.name}/{file.stem}", row["subtype"] != "irrelevant_history")
            found.setdefault(key, []).extend(row[side][-1]["content"] for side in "ab")
    return found


def questions(folder: Path) -> dict[tuple[str, bool], list[str]]:
    """Questions that stand alone."""
    found: dict[tuple[str, bool], list[str]] = {}
    if (file := folder / "nq_open_oracle" / "nq-open-oracle.jsonl").exists():
        found["nq_open_oracle", False] = [json.loads(line)["question"] for line in file.read_text().splitlines()]
    if (file := folder / "xquad_en" / "xquad.en.json").exists():
        paragraphs = [one for article in json.loads(file.read_text())["data"] for one in article["paragraphs"]]
        found["xquad", False] = [asked["question"] for one in paragraphs for asked in one["qas"]]
    if (file := folder / "banking77" / "train.csv").exists():
        found["banking77", False] = [row["text"] for row in csv.DictReader(file.read_text().splitlines())]
    return found


def main() -> int:
    """Prints the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    rows = []
    for (name, leaning), texts in {**conversations(given.data), **questions(given.data)}.items():
        wrong = [text for text in texts if leans(text) != leaning]
        share = round(1 - len(wrong) / len(texts), 4)
        short = sum((len(text.split()) <= SHORT) == leaning for text in texts) / len(texts)
        rows.append(Row(data=name, leaning=leaning, turns=len(texts), right=share, by_length=round(short, 4)))
        if given.show:
            print(f"{name} {leaning}:", *wrong[:40], sep="\n  ")
    if not rows:
        print(f"{given.data} holds none of fow_cache, nq_open_oracle, xquad_en and banking77", file=sys.stderr)
        return 0
    if given.json:
        print(json.dumps(msgspec.to_builtins(rows), indent=1))
        return 0
    for row in rows:
        kind = "leans" if row.leaning else "stands alone"
        print(f"{row.data:20} {kind:12} {row.right:.3f}, by length {row.by_length:.3f}  ({row.turns} turns)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
