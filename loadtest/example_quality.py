"""Whether the few-shot examples that are chosen are of the question's kind, by words and by meaning.

    python -m loadtest.example_quality --data DIR [--json] [--half N]

A question is asked with a pool of labelled questions as examples, of which four fit. `first` and `any` are the share of
questions with an example of their label in the pool for which the best, or any, of the chosen ones has that label;
`none` is the share of questions outside of all labels (clinc150) that get no example, `some` that of the others that
get one. Pools and questions come from one half of each data set by a hash of the text: 0 for choosing, 1 to report.
"""

import csv
import json
import random
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from hasten.compressor import examples
from hasten.messages.chat import Example
from loadtest.embedding import Embedding, Vectors
from loadtest.halved import command
from loadtest.pairs import DataError, Labelled

POOLS, POOL, ASKED, OUTSIDE, FIT = 40, 150, 8, 4, 4
Choose = Callable[[Sequence[Example], str, Vectors, int], list[int]]


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Examples, and the questions that are asked with them; `outside` have no label."""

    shown: list[Labelled]
    asked: list[Labelled]
    outside: list[str]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One way to choose on one data set."""

    data: str
    way: str
    questions: int
    first: float
    any: float
    some: float
    none: float | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All rows; `skipped` says what was not there."""

    rows: list[Row] = []
    skipped: list[str] = []


def by_words(shown: Sequence[Example], text: str, _: Vectors, fit: int) -> list[int]:
    """As the compressor does without the embedder."""
    return examples.choose(shown, [1] * len(shown), text, fit)


def by_meaning(shown: Sequence[Example], text: str, vectors: Vectors, fit: int) -> list[int]:
    """As the compressor does with the embedder."""
    similar = [float(vectors[one.user] @ vectors[text]) for one in shown]
    return examples.choose(shown, [1] * len(shown), text, fit, similar)


WAYS: dict[str, Choose] = {"words": by_words, "meaning": by_meaning}


def banking(folder: Path) -> tuple[list[Labelled], list[Labelled], list[str]]:
    """The training questions of banking77, one half as examples and the other as questions."""
    path = folder / "banking77" / "train.csv"
    if not path.is_file():
        raise DataError(f"{path} is not there")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [Labelled(text=row["text"], label=row["category"]) for row in csv.DictReader(file)]
    return rows[::2], rows[1::2], []


def clinc(folder: Path) -> tuple[list[Labelled], list[Labelled], list[str]]:
    """clinc150: its training questions as examples, those for validation and those out of scope as questions."""
    path = folder / "clinc150" / "data_full.json"
    if not path.is_file():
        raise DataError(f"{path} is not there")
    parts = json.loads(path.read_text(encoding="utf-8"))
    train, asked = ([Labelled(text=text, label=label) for text, label in parts[name]] for name in ("train", "val"))
    return train, asked, [text for name in ("oos_train", "oos_val") for text, _ in parts[name]]


def pools(data: tuple[list[Labelled], list[Labelled], list[str]], half: int) -> list[Pool]:
    """The pools of one half, always the same."""

    def mine(text: str) -> bool:
        return zlib.crc32(text.encode()) % 2 == half

    shown, asked = ([one for one in part if mine(one.text)] for part in data[:2])
    outside, draw = [text for text in data[2] if mine(text)], random.Random(half)
    return [
        Pool(
            shown=draw.sample(shown, POOL),
            asked=draw.sample(asked, ASKED),
            outside=draw.sample(outside, min(OUTSIDE, len(outside))),
        )
        for _ in range(POOLS)
    ]


def measured(name: str, found: Sequence[Pool], embedding: Embedding) -> list[Row]:
    """Each way on the pools."""
    texts = {one.text for pool in found for one in (*pool.shown, *pool.asked)} | {t for p in found for t in p.outside}
    vectors = embedding.of(sorted(texts), name)
    rows = []
    for way, choose in WAYS.items():
        first, hits, some, none = [], [], [], []
        for pool in found:
            shown = [Example(user=one.text, assistant=one.label) for one in pool.shown]
            known = {one.label for one in pool.shown}
            for one in (one for one in pool.asked if one.label in known):
                chosen = choose(shown, one.text, vectors, FIT)
                first.append(any(shown[at].assistant == one.label for at in choose(shown, one.text, vectors, 1)))
                hits.append(any(shown[at].assistant == one.label for at in chosen))
                some.append(bool(chosen))
            none += [not choose(shown, text, vectors, FIT) for text in pool.outside]
        rows.append(
            Row(
                data=name,
                way=way,
                questions=len(first),
                first=_mean(first),
                any=_mean(hits),
                some=_mean(some),
                none=_mean(none) if none else None,
            )
        )
    return rows


def _mean(values: Sequence[bool]) -> float:
    return round(sum(values) / max(1, len(values)), 3)


def evaluated(data: Path, half: int, models: Path) -> Report:
    """Both data sets, as far as they are there."""
    rows: list[Row] = []
    skipped: list[str] = []
    embedding: Embedding | None = None
    for name, read in (("banking77", banking), ("clinc150", clinc)):
        try:
            found = pools(read(data), half)
        except DataError as error:
            skipped.append(str(error))
            continue
        embedding = embedding or Embedding(models)
        rows += measured(name, found, embedding)
    return Report(rows=rows, skipped=skipped)


def show(report: Report) -> None:
    """Prints the table."""
    table = Table("data", "way", "questions", "first", "any", "some", "none")
    for row in report.rows:
        shares = (row.first, row.any, row.some, row.none)
        table.add_row(row.data, row.way, str(row.questions), *("-" if one is None else f"{one:.3f}" for one in shares))
    Console().print(table)
    for line in report.skipped:
        print(f"skipped: {line}")


def main() -> int:
    """The command."""
    return command(__doc__, "the least likeness was", evaluated, show)


if __name__ == "__main__":
    sys.exit(main())
