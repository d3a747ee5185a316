"""Ways to cut passages to a budget: simple ones to compare with, and the compressor itself."""

import itertools
import math
import random
import zlib
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from hasten.compressor.document import Document, documents
from hasten.compressor.domain import compress
from hasten.compressor.settings import Settings
from hasten.compressor.tokens import TokenCounter
from hasten.messages.chat import Turn
from hasten.messages.compress import Compress, Compressed
from hasten.terms import terms, weights
from loadtest.compression_cases import Case, Spans

Kept = dict[str, Spans]
WINDOW = 10**6
_POLICY = Settings().policy()
_K, _B = 1.2, 0.75
"""Lucene's parameters of BM25."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A case with its passages read as the compressor reads them, and the tokens of its prompt with and without."""

    case: Case
    documents: list[Document]
    whole: int
    bare: int


def task(case: Case, counter: TokenCounter) -> Task:
    """Counts the prompt with all of its passages, and with none."""
    read = documents(case.passages, lambda text: text, counter.counts)
    bare = counter.prompt([Turn(role="user", content=case.question)])
    whole = press(case, counter, WINDOW).tokens_before
    return Task(case=case, documents=read, whole=whole, bare=bare)


def press(case: Case, counter: TokenCounter, budget: int, *, vectors: bool = True) -> Compressed:
    """What the compressor makes of a case; without `vectors` as if the store had none of the sentences."""
    passages = case.passages
    if not vectors:
        passages = [msgspec.structs.replace(one, sentences=[]) for one in passages]
    turns = [Turn(role="user", content=case.question)]
    request = Compress(messages=turns, passages=passages, token_budget=budget, context_window=WINDOW)
    return compress(request, counter, _POLICY)


def kept_of(made: Compressed) -> Kept:
    """What stands in the prompt of each passage."""
    return {source.passage: list(source.spans) for source in made.sources}


Worth = Callable[[Task], list[list[float]]]


def by_rank(task: Task) -> list[list[float]]:
    """The passages as they are ranked, from the beginning, until the budget is used up."""
    count = itertools.count()
    return [[-float(next(count)) for _ in one.units] for one in task.documents]


def by_chance(task: Task) -> list[list[float]]:
    """Sentences at random, the same each time."""
    chance = random.Random(zlib.crc32(task.case.question.encode()))
    return [[chance.random() for _ in one.units] for one in task.documents]


def by_words(task: Task) -> list[list[float]]:
    """BM25 of each sentence."""
    units = [terms(unit.text) for one in task.documents for unit in one.units]
    idf = weights(terms(task.case.question), [frozenset(unit) for unit in units])
    average = sum(map(len, units)) / max(1, len(units))
    scores = iter([_bm25(unit, idf, average) for unit in units])
    return [[next(scores) for _ in one.units] for one in task.documents]


def _bm25(unit: Sequence[str], idf: dict[str, float], average: float) -> float:
    counts = Counter(unit)
    long = _K * (1 - _B + _B * len(unit) / max(1e-9, average))
    return math.fsum(idf[term] * counts[term] * (_K + 1) / (counts[term] + long) for term in idf.keys() & counts.keys())


def by_nearness(task: Task) -> list[list[float]]:
    """The cosine of each sentence."""
    return [one.cosines for one in task.documents]


SIMPLE: dict[str, Worth] = {"truncation by rank": by_rank, "random": by_chance, "BM25": by_words, "dense": by_nearness}


def cut(task: Task, worth: list[list[float]], budget: int) -> Kept:
    """The best sentences that fit, each passage with its title line; for truncation these are the first ones."""
    order = sorted(
        ((value, -at, -unit) for at, values in enumerate(worth) for unit, value in enumerate(values)), reverse=True
    )
    room = budget - task.bare
    chosen: dict[int, list[int]] = {}
    for _, at, unit in order:
        document = task.documents[-at]
        cost = document.sizes[-unit] + (0 if -at in chosen else document.head)
        if cost <= room:
            room -= cost
            chosen.setdefault(-at, []).append(-unit)
    return {task.documents[at].passage.id: task.documents[at].spans(sorted(units)) for at, units in chosen.items()}
