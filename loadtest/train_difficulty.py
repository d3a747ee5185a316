"""Trains the router's estimate of difficulty and writes its artefact with the report of what it can do.

    python -m loadtest.train_difficulty --data DIR [--json] [--out FILE.npz]

DIR holds routellm_evals: per question whether Mixtral 8x7B and GPT-4 were right. What is predicted is the gain: strong
minus weak. Training is deterministic. The figures of the report are of questions that the weights were not fitted on:
by question (five parts) and, for mmlu, with all questions of a subject in one of seven parts. FILE is a path, the
report goes beside it with the suffix `.json`; the package's own is `services/hasten/router/difficulty.npz`.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hasten.router.estimator import FORM, MEANING, Artefact, packed
from loadtest.asked import Asked
from loadtest.embedding import Embedding
from loadtest.gain import ANCHORS, AXES, RIDGE, by_question, by_subject, guesses, trained
from loadtest.gap import recovered
from loadtest.graded import graded, mark
from loadtest.pairs import DataError


def folded(asked: Asked, by: str) -> Any:
    """The parts of a cross-validation, by `question` or by `subject`."""
    if by == "subject":
        return by_subject([row.subject for row in asked.rows])
    return by_question([row.text for row in asked.rows])


def figures(asked: Asked) -> dict[str, Any]:
    """By kind of split and data set: the figures of the guessed gain and of the guess by form alone."""
    made: dict[str, Any] = {}
    for by in ("question", "subject"):
        found = guesses(asked.vectors, asked.values, asked.gains, folded(asked, by))
        for name in sorted({row.data for row in asked.rows}):
            among = asked.among(name)
            if by == "subject" and len({row.subject for row in asked.rows if row.data == name}) < 2:
                continue
            for way, guessed in (("vector and surface", found.gain), ("surface alone", found.plain)):
                key = f"{name}, kept out by {by}, {way}"
                made[key] = recovered(guessed[among].astype(np.float64), asked.gains[among])
    return made


def report(asked: Asked, embedding: Embedding) -> dict[str, Any]:
    """What the artefact was made from, and how good it is at questions that were kept out."""
    names = sorted({row.data for row in asked.rows})
    kept = {key: {name: getattr(one, name) for name in one.__struct_fields__} for key, one in figures(asked).items()}
    return {
        "fitted_on": {name: int(asked.among(name).sum()) for name in names},
        "subjects": sorted({row.subject for row in asked.rows}),
        "embedder": embedding.name,
        "predicts": "gain: right by the strong model (gpt-4-1106-preview) minus right by the weak one (Mixtral-8x7B)",
        "chosen_by_hand": {"axes": AXES, "anchors": ANCHORS, "ridge": RIDGE, "meaning": MEANING, "form": FORM},
        "kept_out": kept,
        "questions": sorted(mark(row.text) for row in asked.rows),
    }


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--out", type=Path, help="write the artefact here and the report beside it")
    given = parser.parse_args()
    embedding = Embedding()
    try:
        asked = Asked.of([row for rows in graded(given.data).values() for row in rows], embedding)
    except DataError as error:
        print(f"train_difficulty: {error}", file=sys.stderr)
        return 2
    artefact = trained(asked.vectors, asked.values, asked.gains)
    told = report(asked, embedding)
    if given.out:
        write(artefact, told, given.out)
    shown = told if given.json else {key: value for key, value in told.items() if key != "questions"}
    print(json.dumps(shown, indent=None if given.json else 2))
    return 0


def write(artefact: Artefact, told: dict[str, Any], out: Path) -> None:
    """The artefact, and the report with the marks of the questions on one line."""
    out.write_bytes(packed(artefact))
    text = json.dumps({**told, "questions": "@"}, indent=2).replace('"@"', json.dumps(told["questions"]))
    out.with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
