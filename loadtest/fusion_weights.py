"""`python -m loadtest.fusion_weights --data DIR`: how much words should count beside vectors.

Four public sets, and a made-up one of part numbers, are cut into chunks, embedded and fused by the retriever's own
code; both searches are exact scans. The weight is chosen on half of the questions and reported on the other half: the best
mean over the sets among the weights with which no set is worse than by vectors alone. Measured is the reciprocal rank
of the right document among ten; of hotpot100 the share of the two supporting documents among the first five, of
chunking_eval that of the wanted characters within the first 4,000. `--json` prints one object. Sets that are absent are
left out, which is said.
"""

import argparse
import csv
import json
import math
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hasten.messages.retrieve import Document
from hasten.retriever.bm25 import document_terms, question_terms
from hasten.retriever.chunking import chunks
from hasten.retriever.fusion import fused
from hasten.retriever.parent import leaning
from hasten.retriever.records import embedding_text
from hasten.retriever.settings import Settings
from loadtest.embedding import Embedding

WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
WIDTH, CHARS, MOST = 40, 4000, 400
"""Chunks that each branch finds, characters of passages that count, and questions of a set."""
Scores = NDArray[np.float32]
Passages = list[tuple[str, int, int]]
Gain = Callable[[Passages], float]


class Question(msgspec.Struct, frozen=True):
    """What is asked, and how good an order of passages (document, start, end) is."""

    text: str
    gain: Gain


def _rank(wanted: str) -> Gain:
    def gain(order: Passages) -> float:
        documents = list(dict.fromkeys(document for document, *_ in order))[:10]
        return 1 / (1 + documents.index(wanted)) if wanted in documents else 0.0

    return gain


def _both(wanted: set[str]) -> Gain:
    return lambda order: len(wanted & set(list(dict.fromkeys(name for name, *_ in order))[:5])) / len(wanted)


def _covered(wanted: str, spans: list[tuple[int, int]]) -> Gain:
    def gain(order: Passages) -> float:
        left, got = CHARS, set[int]()
        for document, start, end in order:
            left -= end - start
            if left < 0:
                break
            if document == wanted:
                got |= {at for low, high in spans for at in range(max(low, start), min(high, end))}
        return len(got) / sum(high - low for low, high in spans)

    return gain


def xquad(data: Path) -> Iterator[Document | Question]:
    """Paragraphs of Wikipedia; the right one is that a question was written about."""
    for number, article in enumerate(json.loads((data / "xquad_en/xquad.en.json").read_text())["data"]):
        for place, paragraph in enumerate(article["paragraphs"]):
            yield Document(id=f"{number}-{place}", text=paragraph["context"])
            yield from (Question(one["question"], _rank(f"{number}-{place}")) for one in paragraph["qas"])


def hotpot(data: Path) -> Iterator[Document | Question]:
    """The paragraphs of all questions together; two support each."""
    for line in (data / "hotpot100/hotpot100.jsonl").read_text().splitlines():
        row = msgspec.json.decode(line)
        for title, sentences in zip(row["context"]["title"], row["context"]["sentences"], strict=True):
            yield Document(id=title, title=title, text="".join(sentences))
        yield Question(row["question"], _both(set(row["supporting_facts"]["title"])))


def natural_questions(data: Path) -> Iterator[Document | Question]:
    """The gold passages of 600 searches together."""
    for line in (data / "nq_open_oracle/nq-open-oracle.jsonl").read_text().splitlines()[:600]:
        row = msgspec.json.decode(line)
        passage = row["ctxs"][0]
        yield Document(id=passage["text"][:200], title=passage["title"], text=passage["text"])
        yield Question(row["question"], _rank(passage["text"][:200]))


def chunking_eval(data: Path) -> Iterator[Document | Question]:
    """Long texts; the right characters are marked."""
    texts = {path.stem: path.read_text() for path in sorted((data / "chunking_eval/corpora").glob("*.md"))}
    yield from (Document(id=name, text=text) for name, text in texts.items())
    with (data / "chunking_eval/questions_df.csv").open() as file:
        for row in csv.DictReader(file):
            if row["corpus_id"] in texts:
                marked = [(one["start_index"], one["end_index"]) for one in json.loads(row["references"])]
                yield Question(row["question"], _covered(row["corpus_id"], marked))


def part_numbers(_: Path) -> Iterator[Document | Question]:
    """Made up: 700 sheets that differ in their numbers; a hundred are asked for by part, a hundred by stock number."""
    some = random.Random(5)
    parts = ("pump", "valve", "filter", "hose", "bearing", "motor", "sensor", "gasket")
    for n in range(700):
        code = f"{some.choice('KQTXZ')}{some.choice('BRXW')}-{some.randint(100, 999)}{some.choice('ABC')}"
        stock, part, shelf = some.randint(10_000, 99_999), parts[n % 8], some.randint(1, 90)
        text = f"The {part} {code} is kept on shelf {shelf} under stock number {stock} and weighs {n % 40} kg."
        yield Document(id=str(n), title="Data sheet", text=text)
        if n % 7 in (0, 1):
            asked = f"On which shelf is the {part} {code}?" if n % 7 else f"What has the stock number {stock}?"
            yield Question(asked, _rank(str(n)))


SETS = {
    "xquad_en": xquad,
    "hotpot100": hotpot,
    "nq_open_oracle": natural_questions,
    "chunking_eval": chunking_eval,
    "part numbers": part_numbers,
}


class Index:
    """All chunks of a set, searched exactly by both branches."""

    def __init__(self, documents: list[Document], embedding: Embedding) -> None:
        self._embedding = embedding
        self._passages: Passages = []
        texts, vectors = [], []
        settings = Settings()
        for document in documents:
            found = chunks(document.text, "text/plain", title=document.title, passage_chars=settings.passage_chars)
            own = [embedding_text(document, chunk) for chunk in found]
            known = embedding.of(own)
            vectors += leaning(found, [known[text] for text in own], settings.parent_weight)
            self._passages += [(document.id, chunk.passage_start, chunk.passage_end) for chunk in found]
            texts += own
        self._vectors: Scores = np.array(vectors)
        self._holding: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for at, text in enumerate(texts):
            terms = document_terms(text)
            for term, weight in zip(terms.ids.tolist(), terms.weights.tolist(), strict=True):
                self._holding[term].append((at, weight))

    def branches(self, question: str) -> tuple[dict[str, float], dict[str, float]]:
        """The best passages by vectors and by words, with their scores; a passage is named by its JSON."""
        return self._best(self._vectors @ self._embedding.of([question])[question], -1.0), self._best(
            self._words(question), 0.0
        )

    def _words(self, question: str) -> Scores:
        scores, total = np.zeros(len(self._passages), dtype=np.float32), len(self._passages)
        for term in question_terms(question).ids.tolist():
            holding = self._holding.get(term, [])
            rarity = math.log(1 + (total - len(holding) + 0.5) / (len(holding) + 0.5))
            for at, weight in holding:
                scores[at] += weight * rarity
        return scores

    def _best(self, scores: Scores, floor: float) -> dict[str, float]:
        found: dict[str, float] = {}
        for at in np.argsort(-scores)[:WIDTH]:
            if scores[at] > floor:
                found.setdefault(json.dumps(self._passages[at]), float(scores[at]))
        return found


def measured(parts: list[Document | Question], embedding: Embedding) -> dict[str, list[float]]:
    """The mean gain at each weight, of the even and of the odd questions."""
    documents = {one.id: one for one in parts if isinstance(one, Document)}
    questions = [one for one in parts if isinstance(one, Question)]
    random.Random(3).shuffle(questions)
    questions = questions[:MOST]
    index = Index(list(documents.values()), embedding)
    embedding.of([question.text for question in questions])
    gains = [[_gain(index.branches(one.text), weight, one.gain) for weight in WEIGHTS] for one in questions]
    halves = {"chosen on": gains[::2], "reported on": gains[1::2]}
    return {name: [round(float(mean), 4) for mean in np.mean(half, axis=0)] for name, half in halves.items()}


def _gain(branches: tuple[dict[str, float], dict[str, float]], weight: float, gain: Gain) -> float:
    order = fused(*branches, lambda _: weight)
    return gain([tuple(json.loads(name)) for name in order])


def chosen(sets: dict[str, dict[str, list[float]]]) -> float | None:
    """The best weight on the first half with which no set is worse than by vectors alone; None without any set."""
    if not sets:
        return None
    halves = [one["chosen on"] for one in sets.values()]
    harmless = [at for at in range(len(WEIGHTS)) if all(half[at] >= half[0] for half in halves)]
    return WEIGHTS[max(harmless, key=lambda at: sum(half[at] for half in halves))]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    embedding, sets = Embedding(), dict[str, Any]()
    for name, read in SETS.items():
        try:
            parts = list(read(given.data))
        except FileNotFoundError:
            print(f"{name} is left out: it is not in {given.data}", file=sys.stderr)
            continue
        sets[name] = measured(parts, embedding)
    result = {"weights": WEIGHTS, "sets": sets, "chosen": chosen(sets), "model": embedding.name}
    if given.json:
        json.dump(result, sys.stdout)
        return
    print(f"{'weight of words':28}", *(f"{weight:6}" for weight in WEIGHTS))
    for name, halves in sets.items():
        for half, means in halves.items():
            print(f"{name:16}{half:12}", *(f"{mean:6.3f}" for mean in means))
    print(f"chosen: {result['chosen']}")


if __name__ == "__main__":
    main()
