"""Measures what a question needs and is still in the prompt after compression, beside simple ways, on public data.

    python -m loadtest.compression_quality --data DIR [--json] [--plot FILE.svg] [--cache DIR] [--half 0|1|all]

DIR holds any of nq_open_oracle, hotpot100, chunking_eval and qmsum; what is missing is left out, with the reason.
Passages are cut, embedded and ranked by the retriever's own code, and compressed by the compressor's. Parameters were
chosen on half 0 of the questions, so half 1 is reported. `--cache` keeps the vectors, which take minutes to make.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from hasten.bench.figures import percentile
from hasten.compressor.hf_tokenizer import HfTokenizer
from hasten.compressor.tokenizer_folder import TokenizerFolder
from hasten.compressor.tokens import TokenCounter
from hasten.embedder.loading import load
from hasten.embedder.settings import Settings
from hasten.models import SMALL
from hasten.weights import folder as weights_folder
from loadtest.compression_cases import Case, Encode, Shelf, Vectors, holds, readers
from loadtest.compression_plot import plot
from loadtest.compression_report import PUBLISHED, Report, Row, Speed, show
from loadtest.compression_ways import SIMPLE, Kept, Task, cut, kept_of, press, task
from loadtest.pairs import DataError

SHARES = (0.1, 0.15, 0.2, 0.3, 0.5)
DRAWS, TIMED, BATCH = 1000, 60, 16


def real(data: Path) -> Encode:
    """The product's encoder, in batches of texts of about equal length."""
    encoder = load(Settings(data=str(data)))

    def encode(texts: list[str], spans: list[list[tuple[int, int]]]) -> tuple[Vectors, list[Vectors]]:
        whole = np.zeros((len(texts), encoder.dim), dtype=np.float32)
        parts: list[Vectors] = [np.zeros((0, encoder.dim), dtype=np.float32)] * len(spans)
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            made = encoder.encode([texts[at] for at in some], [spans[at] for at in some] if spans else [])
            whole[some] = made.vectors
            for at, found in zip(some, made.spans if spans else [], strict=False):
                parts[at] = found
        return whole, parts

    return encode


def rows(name: str, tasks: Sequence[Task], counter: TokenCounter) -> list[Row]:
    """Every way at every share, over the questions of which the passages held everything or a part."""
    found: list[Row] = []
    for share in SHARES:
        scores: dict[str, list[tuple[bool, float]]] = {}
        saved: dict[str, list[float]] = {}
        for one in tasks:
            budget = int(share * one.whole)
            for way, (kept, tokens) in _cuts(one, budget, counter).items():
                scores.setdefault(way, []).append(_score(one, kept))
                saved.setdefault(way, []).append(1 - tokens / one.whole)
        base = np.array([whole for whole, _ in scores["truncation by rank"]], dtype=float)
        for way, each in scores.items():
            whole = np.array([one for one, _ in each], dtype=float)
            row = Row(
                data=name,
                way=way,
                share=share,
                questions=len(tasks),
                whole=round(float(whole.mean()), 4),
                facts=round(float(np.mean([part for _, part in each])), 4),
                saved=round(float(np.mean(saved[way])), 4),
                gain=interval(whole - base) if way.startswith("hasten") else None,
            )
            found.append(row)
    return found


def _cuts(one: Task, budget: int, counter: TokenCounter) -> dict[str, tuple[Kept, int]]:
    """What each way keeps, and the tokens of the prompt (for the simple ones: of the budget)."""
    found = {way: (cut(one, worth(one), budget), budget) for way, worth in SIMPLE.items()}
    for way, vectors in (("hasten", True), ("hasten without vectors", False)):
        made = press(one.case, counter, budget, vectors=vectors)
        found[way] = (kept_of(made), made.tokens_after)
    return found


def _score(one: Task, kept: Kept) -> tuple[bool, float]:
    whole = {passage.id: [(passage.start, passage.end)] for passage in one.case.passages}
    there = [fact for fact in one.case.facts if holds(whole, one.case, fact)]
    held = [holds(kept, one.case, fact) for fact in there]
    return all(held), sum(held) / len(held)


def interval(differences: NDArray[np.floating[Any]]) -> tuple[float, float, float]:
    """The mean of paired differences, and what 95% of the means of resampled questions lie between."""
    draws = np.random.default_rng(0).integers(0, len(differences), (DRAWS, len(differences)))
    low, high = np.percentile(differences[draws].mean(axis=1), [2.5, 97.5])
    return round(float(differences.mean()), 4), round(float(low), 4), round(float(high), 4)


def speed(name: str, tasks: Sequence[Task], fresh: TokenCounter, known: TokenCounter) -> Speed:
    """The processor's time for requests cut to 15%; `fresh` is a counter that remembers nothing."""
    some = tasks[:TIMED]
    took: dict[str, list[float]] = {"new": [], "known": []}
    for one in some:
        for what, counter in (("new", fresh), ("known", known)):
            since = time.process_time_ns()
            press(one.case, counter, int(0.15 * one.whole))
            took[what].append((time.process_time_ns() - since) / 1e6)
    new, old = ((round(percentile(one, 0.5), 1), round(percentile(one, 0.95), 1)) for one in took.values())
    return Speed(data=name, tokens=float(np.mean([one.whole for one in some])), new_ms=new, known_ms=old)


def measured(
    folder: Path, encode: Encode, counters: tuple[TokenCounter, TokenCounter], asked: argparse.Namespace
) -> Report:
    """Everything that the data in `folder` allows, with a counter that remembers and one that does not."""
    made: list[Row] = []
    speeds: list[Speed] = []
    skipped: list[str] = []
    for name, read in readers(asked.limit).items():
        if asked.only and asked.only not in name:
            continue
        try:
            documents, cases = read(folder)
        except (DataError, OSError, ValueError, KeyError) as error:
            skipped.append(f"{name}: {error}")
            continue
        shelf = Shelf(name.split(",")[0], documents, encode, asked.cache)
        some = [one for one in cases(shelf, encode) if asked.half == "all" or one.half == int(asked.half)]
        tasks = [task(one, counters[0]) for one in some if _answerable(one)]
        if not tasks:
            skipped.append(f"{name}: no question has what it needs in its passages")
            continue
        made += rows(name, tasks, counters[0])
        speeds.append(speed(name, tasks, counters[1], counters[0]))
    told = {"all": "all, those that parameters were chosen on among them", "0": "THOSE THAT PARAMETERS WERE CHOSEN ON"}
    half = told.get(asked.half, "half 1, on which nothing was chosen")
    return Report(half=half, rows=made, speeds=speeds, published=PUBLISHED, skipped=skipped)


def _answerable(case: Case) -> bool:
    whole = {passage.id: [(passage.start, passage.end)] for passage in case.passages}
    return any(holds(whole, case, fact) for fact in case.facts)


def main() -> int:
    """The command."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="the folder of the data sets")
    parser.add_argument(
        "--models", type=Path, default=Path(".hasten"), help="the data folder with tokenizer and encoder"
    )
    parser.add_argument("--cache", type=Path, help="keep the vectors in this folder")
    parser.add_argument("--half", choices=("0", "1", "all"), default="1", help="which half of the questions")
    parser.add_argument("--only", metavar="NAME", help="the data sets with this in their name")
    parser.add_argument("--limit", type=int, default=10**9, help="questions of each data set, both halves")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the curves there, as SVG or PNG")
    asked = parser.parse_args()
    models = weights_folder(asked.models)
    known = TokenizerFolder(models).load(SMALL.tokenizer)
    fresh = HfTokenizer(models / SMALL.tokenizer, kept=0) if isinstance(known, HfTokenizer) else known
    report = measured(asked.data, real(asked.models), (known, fresh), asked)
    if asked.plot:
        plot(report, asked.plot)
    if asked.json:
        print(json.dumps(msgspec.to_builtins(report), ensure_ascii=False))
    else:
        show(Console(highlight=False, width=max(150, Console().width)), report)
    if not report.rows:
        print(f"compression_quality: {asked.data} holds none of the data sets; name it with --data", file=sys.stderr)
    return 0 if report.rows else 2


if __name__ == "__main__":
    sys.exit(main())
