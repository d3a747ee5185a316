"""Measures how well the retriever finds what answers a question, on public data, stage by stage.

    python -m loadtest.retrieval_quality --data DIR [--json] [--plot FILE.svg] [--only NAME] [--rerank onnx:FOLDER]

DIR holds any of chunking_eval, nq_open_oracle, xquad_en, hotpot100 and qmsum; what is missing is left out, with the
reason. Documents are cut, weighed, stored and searched by the retriever's own code, in the embedded store. Parameters
are tried on one half of the questions (by question; by paragraph or meeting where several are asked of one) and the
other half is measured; the same half is kept out by `loadtest.train_reranker`. Vectors are kept in `--cache`.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from hasten.embedder.loading import load
from hasten.embedder.settings import Settings as EmbedderSettings
from hasten.messages.retrieve import Passage
from hasten.retriever.reranker import Pace, Progress, fused, read
from hasten.retriever.rerankers import load as load_reranker
from hasten.retriever.settings import Settings
from loadtest.retrieval_metric import Figures, gain, judged, mean
from loadtest.retrieval_plot import plot
from loadtest.retrieval_report import Chosen, Report, Row, Trial, show
from loadtest.retrieval_sets import Corpus, Question, corpora
from loadtest.retrieval_shelf import Shelf, times
from loadtest.vector_file import VectorFile

DEFAULT = Settings()
LEXICAL = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
PARENT = (0.0, 0.35, 0.7, 1.0)
DENSE, SMALL = "vectors", "vectors, without small-to-big"


class Bench:
    """Measures one corpus after the other; `scores` has nDCG@10 of each measured question by set and weight."""

    def __init__(self, vectors: VectorFile, dim: int, folder: Path, most: int) -> None:
        self._vectors, self._dim, self._folder, self._most = vectors, dim, folder, most
        self.rows: list[Row] = []
        self.trials: list[Trial] = []
        self.chunks: dict[str, int] = {}
        self.scores: dict[str, dict[float, float]] = {}

    async def corpus(self, corpus: Corpus) -> None:
        """All rows and trials of a corpus, without reranking."""
        ours, others = _drawn(corpus, self._most, measured=True), _drawn(corpus, self._most, measured=False)
        plain = await self._open(corpus, 0.0)
        ways = [(SMALL, plain, None), ("both, without small-to-big", plain, DEFAULT.lexical_weight)]
        shelf = await self._open(corpus, DEFAULT.parent_weight)
        ways = [(DENSE, shelf, None), ("words", shelf, 1.0), ("both", shelf, DEFAULT.lexical_weight), *ways]
        try:
            if ours:
                await self._measure(corpus, ours, ways)
                self.scores[corpus.name] = {weight: await _ndcg(shelf, ours, weight) for weight in LEXICAL}
            if others:
                await self._try(corpus, others, {0.0: plain, DEFAULT.parent_weight: shelf})
        finally:
            await plain.close()
            await shelf.close()

    async def _open(self, corpus: Corpus, parent: float) -> Shelf:
        settings = msgspec.structs.replace(DEFAULT, parent_weight=parent)
        place = self._folder / f"{len(list(self._folder.iterdir()))}"
        shelf = Shelf(corpus, self._vectors, place, settings)
        await shelf.open(self._dim)
        self.chunks[corpus.name] = shelf.chunks
        return shelf

    async def _measure(
        self, corpus: Corpus, ours: list[Question], ways: Sequence[tuple[str, Shelf, float | None]]
    ) -> None:
        base: list[float] | None = None
        for way, shelf, weight in ways:
            orders, took = await shelf.orders(ours, weight, timed=True)
            found = _judged(corpus, ours, orders)
            values = [one.ndcg_10 for one in found]
            base = values if base is None else base
            self.rows.append(
                Row(
                    data=corpus.name,
                    way=way,
                    questions=len(ours),
                    figures=mean(found),
                    ms=times(took),
                    against="" if values is base else DENSE,
                    gain=None if values is base else gain(values, base),
                )
            )

    async def _try(self, corpus: Corpus, others: list[Question], open_: dict[float, Shelf]) -> None:
        lexical = {f"{weight:g}": await _ndcg(open_[DEFAULT.parent_weight], others, weight) for weight in LEXICAL}
        parent = dict[str, float]()
        for weight in PARENT:
            shelf = open_.get(weight) or await self._open(corpus, weight)
            parent[f"{weight:g}"] = await _ndcg(shelf, others, None)
            if weight not in open_:
                await shelf.close()
        self.trials.append(Trial(data=corpus.name, questions=len(others), lexical=lexical, parent=parent))

    async def rerank(self, corpus: Corpus, named: str, count: int) -> None:
        """The order of both searches read again by a cross-encoder without a limit of time, for `count` questions."""
        model, label = load_reranker(named, DEFAULT.rerank_tokens, DEFAULT.rerank_threads)
        ours = _drawn(corpus, count, measured=True)
        shelf = await self._open(corpus, DEFAULT.parent_weight)
        try:
            before, _ = await shelf.orders(ours, DEFAULT.lexical_weight)
        finally:
            await shelf.close()
        pace, after, took = Pace(), list[list[Passage]](), list[float]()
        for question, order in zip(ours, before, strict=True):
            progress, began = Progress(), time.perf_counter()
            candidates = order[: DEFAULT.rerank_candidates]
            read(model, label, question.text, candidates, progress, pace, time.monotonic() + 3600, time.monotonic)
            took.append(1000 * (time.perf_counter() - began))
            after.append(fused(order, progress.scores, DEFAULT.rerank_weight))
        plain, read_again = _judged(corpus, ours, before), _judged(corpus, ours, after)
        apart = gain([one.ndcg_10 for one in read_again], [one.ndcg_10 for one in plain])
        self.rows.append(Row(data=corpus.name, questions=len(ours), way="both, these questions", figures=mean(plain)))
        self.rows.append(
            Row(
                data=corpus.name,
                questions=len(ours),
                way="both + reranking",
                figures=mean(read_again),
                ms=times(took),
                against="both, these questions",
                gain=apart,
            )
        )

    def chosen(self) -> list[Chosen]:
        """What the weight that the other sets' trials choose brings on each set's measured half."""
        made = []
        for name, values in self.scores.items():
            others = [trial for trial in self.trials if trial.data.partition(",")[0] != name.partition(",")[0]]
            if others:
                best = max(LEXICAL, key=lambda weight: sum(trial.lexical[f"{weight:g}"] for trial in others))
                better = max(values[0.0], values[1.0])
                made.append(Chosen(data=name, weight=best, ndcg_10=values[best], better_leg=better))
        return made


async def _ndcg(shelf: Shelf, questions: list[Question], weight: float | None) -> float:
    orders, _ = await shelf.orders(questions, weight)
    return mean(_judged(shelf.corpus, questions, orders)).ndcg_10


def _judged(corpus: Corpus, questions: list[Question], orders: list[list[Passage]]) -> list[Figures]:
    return [judged(order, one.gold, spans=corpus.spans) for one, order in zip(questions, orders, strict=True)]


def _drawn(corpus: Corpus, most: int, *, measured: bool) -> list[Question]:
    """At most so many questions of one half, by a fixed seed."""
    found = [one for one in corpus.questions if one.measured == measured]
    return random.Random(5).sample(found, min(most, len(found)))


async def measured(folder: Path, vectors: VectorFile, model: str, dim: int, given: argparse.Namespace) -> Report:
    """Everything that the data in `folder` allows."""
    found, skipped = corpora(folder)
    wanted = [one for one in found if not given.only or one.name.startswith(tuple(given.only))]
    with tempfile.TemporaryDirectory(prefix="hasten-retrieval-") as place:
        bench = Bench(vectors, dim, Path(place), given.questions)
        for corpus in wanted:
            print(f"measuring {corpus.name}", file=sys.stderr, flush=True)
            await bench.corpus(corpus)
            if given.rerank:
                await bench.rerank(corpus, given.rerank, given.rerank_questions)
    if not given.rerank:
        skipped.append("reranking: --rerank names no model, and none comes with hasten")
    return Report(
        model=model,
        chunks=bench.chunks,
        rows=bench.rows,
        trials=bench.trials,
        chosen=bench.chosen(),
        skipped=skipped,
    )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--embedder", type=Path, default=Path(".hasten"), help="the data folder of the embedding model")
    parser.add_argument("--cache", type=Path, default=Path(".hasten/retrieval-quality"), help="where vectors are kept")
    parser.add_argument("--only", action="append", default=[], help="data sets whose names begin so")
    parser.add_argument("--questions", type=int, default=300, help="of each half of a set, at most")
    parser.add_argument("--rerank", default="", help="as in [retriever] rerank")
    parser.add_argument("--rerank-questions", type=int, default=40, help="of each set, at most")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if not corpora(given.data)[0]:
        print(f"retrieval_quality: nothing is measured, none of the data sets is in {given.data}", file=sys.stderr)
        return 2
    encoder = load(EmbedderSettings(data=str(given.embedder)))
    vectors = VectorFile(encoder, given.cache)
    report = asyncio.run(measured(given.data, vectors, encoder.name, encoder.dim, given))
    if given.json:
        print(msgspec.json.encode(report).decode())
    else:
        show(Console(width=200), report)
    if given.plot:
        plot(report, given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
