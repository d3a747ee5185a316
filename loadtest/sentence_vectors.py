"""Whether a sentence's vector out of its chunk's pass finds the answer as well as one of the sentence by itself.

`python -m loadtest.sentence_vectors --data DIR [--json]` asks the questions of nq_open_oracle: how often the sentence
with the answer is the first of its passage, and the mean of one over its rank.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from hasten.embedder.encoder import Encoder
from hasten.embedder.loading import load
from hasten.embedder.settings import Settings
from hasten.messages.retrieve import Document
from hasten.quantised import quantised, restored
from hasten.retriever.chunking import chunks
from hasten.retriever.records import embedded_spans, embedding_text
from hasten.vectors.store import Vector

LEAST = 3
"""A passage with fewer sentences asks for little."""


class Case(msgspec.Struct, frozen=True):
    """A question, the passage that answers it, and the answers."""

    question: str
    document: Document
    answers: list[str]


def cases(path: Path, most: int) -> Iterator[Case]:
    """The first questions with their passage."""
    with path.open() as lines:
        for _, line in zip(range(most), lines, strict=False):
            row = json.loads(line)
            passage = row["ctxs"][0]
            yield Case(row["question"], Document(id="", title=passage["title"], text=passage["text"]), row["answers"])


def ranks(case: Case, encoder: Encoder) -> dict[str, int] | None:
    """The rank (from 0) of the first sentence with an answer by each kind of vector; None where there is no choice."""
    text = case.document.text
    found = chunks(text, "text/plain")
    said = [text[one.start : one.end] for chunk in found for one in chunk.sentences]
    right = [any(answer.lower() in sentence.lower() for answer in case.answers) for sentence in said]
    if len(said) < LEAST or not any(right) or all(right):
        return None
    spans = [embedded_spans(case.document, chunk) for chunk in found]
    pooled = np.vstack(encoder.encode([embedding_text(case.document, chunk) for chunk in found], spans).spans)
    rows: dict[str, Vector] = {
        "out of the chunk's pass": pooled,
        "the same, a byte a number": restored(quantised(pooled), encoder.dim),
        "each by itself": encoder.encode(said).vectors,
        "by itself with the title": encoder.encode([f"{case.document.title}\n{one}" for one in said]).vectors,
    }
    question = encoder.encode([case.question]).vectors[0]
    order = {name: np.argsort(-(vectors @ question), kind="stable").tolist() for name, vectors in rows.items()}
    return {name: next(at for at, one in enumerate(ranked) if right[one]) for name, ranked in order.items()}


def main() -> int:
    """Prints the table, or JSON; without the data it says so and returns 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    path = given.data / "nq_open_oracle" / "nq-open-oracle.jsonl"
    if not path.exists():
        print(f"skipped: there is no {path}", file=sys.stderr)
        return 0
    encoder = load(Settings())
    found = [one for case in cases(path, given.questions) if (one := ranks(case, encoder)) is not None]
    table = {
        name: {
            "first": round(float(np.mean([one[name] == 0 for one in found])), 3),
            "mrr": round(float(np.mean([1 / (1 + one[name]) for one in found])), 3),
        }
        for name in found[0]
    }
    if given.json:
        print(json.dumps({"questions": len(found), "vectors": table}))
        return 0
    print(f"{len(found)} questions of nq_open_oracle | sentence with the answer first | MRR")
    for name, figures in table.items():
        print(f"{name} | {figures['first']:.3f} | {figures['mrr']:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
