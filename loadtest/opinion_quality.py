"""Measures a second opinion on pairs: how many right hits it would give at a bounded share of wrong ones.

    python -m loadtest.opinion_quality --data DIR --opinion onnx:FOLDER [--json FILE]

For each set, pairs in the order of the similarity and of the opinion (the lower of both directions): all of them, those
that no guard refuses, and of those the ones above the floor of similarity, which is what the cache asks about. Then the
hits of the cache alone and with the opinion, at the default thresholds. `right` is a share of all that ask for the
same, `at` the threshold that gives it. Latencies are of one pair, both ways, on one thread.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasten.cache.guards import Reading, compared
from hasten.cache.judgement import judged
from hasten.cache.opinions import load
from hasten.cache.settings import Settings
from hasten.cache.verifier import shipped
from hasten.embedder.export import folder
from hasten.embedder.onnx_encoder import OnnxEncoder
from loadtest.opinion_pairs import halves
from loadtest.pairs import Pair, fow_cache, medical

SETS = {"fow_cache": fow_cache, "medical_question_pairs": medical}
BOUNDS = (0.05, 0.01)
Scores = NDArray[np.float64]


def auc(scores: Scores, same: NDArray[np.bool_]) -> float:
    """How often a right pair scores above a wrong one (ties count half)."""
    right, wrong = scores[same][:, None], scores[~same][None, :]
    return float(np.mean((right > wrong) + 0.5 * (right == wrong))) if right.size and wrong.size else float("nan")


def curve(scores: Scores, same: NDArray[np.bool_], offered: NDArray[np.bool_]) -> dict[str, Any]:
    """Per bound on wrong hits among hits: the most right hits among those offered, as a share of all right pairs."""
    order = [int(at) for at in np.argsort(-scores, kind="stable") if offered[at]]
    right = np.cumsum(same[order])
    made = {}
    for bound in BOUNDS:
        fits = np.flatnonzero(1 - right / np.arange(1, len(order) + 1) <= bound)
        last = int(fits[-1]) if len(fits) else None
        share = 0.0 if last is None else float(right[last] / same.sum())
        at = None if last is None else round(float(scores[order[last]]), 4)
        made[f"{bound:.0%} wrong"] = {"right": round(share, 3), "at": at}
    return made


def added(agreed: NDArray[np.bool_], same: NDArray[np.bool_], alone: NDArray[np.bool_]) -> dict[str, Any]:
    """Right hits as a share of all right pairs, and wrong hits counted: of the cache alone, and with the opinion."""
    made = {}
    for name, hits in (("cache alone", alone), ("with the opinion", alone | agreed)):
        made[name] = {"right": round(float((hits & same).sum() / same.sum()), 3), "wrong": int((hits & ~same).sum())}
    return made


def measured(pairs: list[Pair], named: str, embed: Callable[[list[str]], Any]) -> dict[str, Any]:
    """Every figure of one set of pairs for the model `named`, as in `[cache] opinion`."""
    model, floor, least = load(named), Settings().opinion_floor, Settings().opinion_threshold
    same = np.array([pair.same for pair in pairs])
    left, right = embed([pair.a for pair in pairs]), embed([pair.b for pair in pairs])
    cosines: Scores = (left * right).sum(axis=1).astype(np.float64)
    offered = np.array([compared(Reading(pair.a), Reading(pair.b)) is None for pair in pairs])
    alone = np.array([_served(pair, float(cosine)) for pair, cosine in zip(pairs, cosines, strict=True)])
    times, scores = [], []
    for pair in pairs:
        started = time.perf_counter()
        scores.append(min(model.score(pair.a, pair.b), model.score(pair.b, pair.a)))
        times.append((time.perf_counter() - started) * 1000)
    opinions, every = np.array(scores), np.ones(len(pairs), dtype=bool)
    return {
        "pairs": len(pairs),
        "same": int(same.sum()),
        "not guarded": {"same": int(offered[same].sum()), "different": int(offered[~same].sum())},
        "auc": {"similarity": round(auc(cosines, same), 3), "opinion": round(auc(opinions, same), 3)},
        "similarity alone": curve(cosines, same, every),
        "opinion alone": curve(opinions, same, every),
        "similarity, guards": curve(cosines, same, offered),
        "opinion, guards": curve(opinions, same, offered),
        f"opinion, guards, similarity ≥ {floor:g}": curve(opinions, same, offered & (cosines >= floor)),
        f"hits at {least:g}": added((opinions >= least) & offered & (cosines >= floor), same, alone),
        "latency_ms": {"p50": round(float(np.median(times)), 1), "p95": round(float(np.quantile(times, 0.95)), 1)},
    }


def _served(pair: Pair, similarity: float) -> bool:
    asked, stored = Reading(pair.a), Reading(pair.b)
    return judged(asked, stored, similarity, Settings().threshold, shipped().weights).reason is None


def main() -> None:
    """Prints the figures of both sets, and writes them as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--opinion", required=True, help="as in [cache] opinion")
    parser.add_argument("--embedder", type=Path, default=Path(".hasten"), help="the data folder of the embedding model")
    parser.add_argument("--held", action="store_true", help="only what train_opinion --hold halves keeps out")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    encoder = OnnxEncoder(folder(given.embedder), 1)

    def embed(texts: list[str]) -> Any:
        return np.concatenate([encoder.encode([text]).vectors for text in texts])

    found = {}
    for name, read in SETS.items():
        pairs = read(given.data)
        found[name] = measured(halves(pairs)[1] if given.held else pairs, given.opinion, embed)
        print(name)
        for row, value in found[name].items():
            print(f"  {row}: {value if isinstance(value, int) else json.dumps(value)}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
