"""What reranking adds to the order by vectors, and what that costs, on questions that no training has seen.

    python -m loadtest.rerank_gain --data DIR --rerank onnx:FOLDER [--budget-ms 35] [--json]

Each kept-out question of nq_open_oracle and XQuAD is asked of all passages of its set. Of the nearest ones by vector
those are read again that fit into the time (0: all of them). Printed are how often the right passage is the first one,
MRR and nDCG@10 by vectors, by the cross-encoder alone and by both, and the passages read per question. `--tune` tries
shares of the cross-encoder on one half of the kept-out questions; without it the other half is measured.
"""

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hasten.embedder.export import folder
from hasten.embedder.onnx_encoder import OnnxEncoder
from hasten.messages.retrieve import Passage
from hasten.retriever.reranker import Pace, Progress, fused, read
from hasten.retriever.rerankers import Model, load
from hasten.retriever.rerankers.model import RerankError
from hasten.retriever.settings import Settings
from loadtest.rerank_groups import SETS, Group, groups, kept_out, tuned_on

DEFAULT = Settings()


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One way of ordering on one set: shares of questions, and the time per question in milliseconds."""

    data: str
    way: str
    questions: int
    first: float
    mrr: float
    ndcg10: float
    read: float = 0.0
    p50_ms: float = 0.0
    p95_ms: float = 0.0


def measured(
    name: str, found: list[Group], model: Model, label: int, budget_ms: float, weights: list[float]
) -> list[Row]:
    """The order by vectors and by each share of the cross-encoder."""
    pace, took, scores = Pace(), list[float](), list[dict[int, float]]()
    listed = [_passages(group) for group in found]
    for group, passages in zip(found, listed, strict=True):
        progress, began = Progress(), time.monotonic()
        until = began + (budget_ms / 1000 if budget_ms else 3600)
        read(model, label, group.question, passages, progress, pace, until, time.monotonic)
        took.append((time.monotonic() - began) * 1000)
        scores.append(progress.scores)
    rows = [_row(name, "vectors", found, listed)]
    for weight in weights:
        orders = [fused(passages, one, weight) for passages, one in zip(listed, scores, strict=True)]
        row = _row(name, f"cross-encoder {weight:g}", found, orders)
        p50, p95 = np.percentile(took, [50, 95])
        times = {"p50_ms": round(float(p50), 1), "p95_ms": round(float(p95), 1)}
        rows.append(msgspec.structs.replace(row, read=round(sum(map(len, scores)) / len(scores), 1), **times))
    return rows


def _passages(group: Group) -> list[Passage]:
    pairs = zip(group.passages, group.cosines, strict=True)
    return [
        Passage(id=str(at), collection="", document="", text=text, score=near) for at, (text, near) in enumerate(pairs)
    ]


def _row(name: str, way: str, found: list[Group], orders: list[list[Passage]]) -> Row:
    places = [
        next((place for place, one in enumerate(order) if one.id == str(group.right)), math.inf)
        for group, order in zip(found, orders, strict=True)
    ]
    return Row(
        data=name,
        way=way,
        questions=len(found),
        first=round(float(np.mean([place == 0 for place in places])), 4),
        mrr=round(float(np.mean([1 / (place + 1) for place in places])), 4),
        ndcg10=round(float(np.mean([1 / math.log2(place + 2) if place < 10 else 0.0 for place in places])), 4),
    )


def main() -> int:
    """Prints the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rerank", required=True, help="as in [retriever] rerank")
    parser.add_argument("--embedder", type=Path, default=Path(".hasten"), help="the data folder of the embedding model")
    parser.add_argument("--budget-ms", type=float, default=0.0, help="0: all candidates are read")
    parser.add_argument("--threads", type=int, default=DEFAULT.rerank_threads)
    parser.add_argument("--questions", type=int, default=400, help="of each set, at most")
    parser.add_argument("--tune", action="store_true", help="tries shares of the cross-encoder, on the other half")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    encoder = OnnxEncoder(folder(given.embedder), 2)
    try:
        model, label = load(given.rerank, DEFAULT.rerank_tokens, given.threads)
    except RerankError as error:
        parser.error(str(error))

    def embed(texts: list[str]) -> Any:
        return np.concatenate([encoder.encode(texts[at : at + 16]).vectors for at in range(0, len(texts), 16)])

    weights = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0] if given.tune else [DEFAULT.rerank_weight, 1.0]
    rows: list[Row] = []
    for name, reading in SETS.items():
        try:
            asked = reading(given.data)
        except OSError as error:
            print(f"{name} is left out: {error.filename} is not there", file=sys.stderr)
            continue
        wanted = [kept_out(one.group) and tuned_on(one.group) == given.tune for one in asked]
        pairs = zip(groups(asked, DEFAULT.rerank_candidates, embed), wanted, strict=True)
        found = [group for group, ours in pairs if ours][: given.questions]
        rows += measured(name, found, model, label, given.budget_ms, weights)
    if not rows:
        parser.error(f"{given.data} holds none of the data sets")
    if given.json:
        print(json.dumps(msgspec.to_builtins(rows), indent=1))
        return 0
    for row in rows:
        print(
            f"{row.data:15} {row.way:18} first {row.first:.3f}  mrr {row.mrr:.3f}  nDCG@10 {row.ndcg10:.3f}  "
            f"read {row.read:4.1f}  p50 {row.p50_ms:5.1f}  p95 {row.p95_ms:5.1f} ms  ({row.questions} questions)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
