"""Trains the verifier of the cache on labelled pairs and writes its artefact with the report of what it can do.

    python -m loadtest.train_verifier --data DIR [--json] [--write]

DIR holds fow_cache, and banking77 and clinc150 to measure on. Training is deterministic. The figures of the report are
of pairs that the weights were not fitted on: by question (ten folds), and by question and kind of trap at once.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import hasten.cache
from hasten.cache.settings import Settings
from hasten.cache.verifier import Artefact, Weights
from loadtest.curve import Point, best
from loadtest.embedding import Embedding
from loadtest.pairs import DataError, fow_cache, mark
from loadtest.verifying import REFUSED, fit, judged, nested, scores

ERRORS = (0.01, 0.02, 0.05)


def rounded(weights: Weights) -> dict[str, float]:
    """The weights by name."""
    return {name: getattr(weights, name) for name in weights.__struct_fields__}


def packed(whole: dict[str, Any]) -> str:
    """JSON that a person can read: the marks of the pairs on one line."""
    pairs = whole["report"]["pairs"]
    text = json.dumps({**whole, "report": {**whole["report"], "pairs": "@"}}, indent=2)
    return text.replace('"@"', json.dumps(pairs))


def told(point: Point) -> dict[str, Any]:
    """A point for the report."""
    return {
        "log_odds": None if point.threshold is None else round(point.threshold, 3),
        "good_hits": round(point.hit_rate, 4),
        "wrong_of_hits": round(point.wrong_rate, 4),
        "traps_served": round(point.trap_rate, 4),
    }


def trained(data: Path, embedding: Embedding) -> Artefact:
    """The artefact fitted on fow_cache's pairs in `data`; raises DataError."""
    pairs = fow_cache(data)
    vectors = embedding.of([text for pair in pairs for text in (pair.a, pair.b)], "fow_cache")
    cases = judged(pairs, vectors, Settings())
    same = np.array([pair.same for pair in pairs])
    weights = fit(cases)
    curves = {
        "fitted_on_the_same": scores(cases, weights),
        "kept_out_by_question": nested(cases),
        "kept_out_by_question_and_kind_of_trap": nested(cases, category=True),
    }
    report: dict[str, object] = {
        "trained_on": f"fow_cache, {len(pairs)} pairs, {sum(case.refusal is None for case in cases)} past the guards",
        "embedder": embedding.name,
        "pairs": sorted(map(mark, pairs)),
        "set_by_hand": "similarity, near, whether, aspect, denial",
        "points": {
            name: {f"at_most_{error:.0%}": told(best(curve, same, error, REFUSED)) for error in ERRORS}
            for name, curve in curves.items()
        },
    }
    return Artefact(weights=weights, report=report)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", action="store_true", help="print the artefact as JSON")
    parser.add_argument("--write", action="store_true", help="write it into the package")
    asked = parser.parse_args()
    try:
        artefact = trained(asked.data, Embedding())
    except DataError as error:
        print(f"train_verifier: {error}", file=sys.stderr)
        return 2
    whole = {"weights": rounded(artefact.weights), "report": artefact.report}
    if asked.write:
        target = Path(hasten.cache.__file__).parent / "verifier.json"
        target.write_text(packed(whole) + "\n")
    if asked.json or not asked.write:
        print(json.dumps(whole, indent=None if asked.json else 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
