"""Says what each unit of the passages is worth to a question; only the order of worths has a meaning."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from hasten.compressor.document import Document


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """How much each sign counts.

    `rank` is the retriever's order (1 for the best passage, then 1/2, 1/3 …), `cosine` how near the unit is to the
    question. `own`, `beside`, `title` and `passage` are the weights of the question's words in the unit, in a
    neighbour, in the title line and in the whole passage. `named` is for the units of a passage whose title another
    one names, by how well the unit that names it fits. `first` is for a passage's first unit. All is divided by the
    unit's tokens to the power of `length`, since a long unit takes the place of several others.
    """

    rank: float
    cosine: float = 0.0
    own: float
    beside: float
    title: float
    passage: float
    named: float
    first: float
    length: float


BY_WORDS = Weights(rank=2.0, own=1.0, beside=0.1, title=1.0, passage=2.0, named=0.0, first=0.2, length=0.15)
BY_MEANING = Weights(
    rank=2.0, cosine=0.5, own=1.0, beside=0.1, title=1.0, passage=2.0, named=0.5, first=0.2, length=0.15
)
"""Where the retriever has not compared the sentences of every passage with the question, and where it has. Chosen on
one half of the questions of public data sets; `python -m loadtest.compression_quality` reports the other."""


def worths(documents: Sequence[Document], query: Mapping[str, float]) -> list[list[float]]:
    """The worth of each unit of each document."""
    weights = BY_MEANING if documents and all(map(_compared, documents)) else BY_WORDS
    own = [_own(document, query) for document in documents]
    cosines = [
        document.cosines if weights.cosine else own_words for document, own_words in zip(documents, own, strict=True)
    ]
    named = _bridges(documents, cosines)
    ranks = _ranks(documents)
    return [
        _of_units(
            document,
            weights,
            query,
            own[at],
            cosines[at],
            weights.named * named[at] + weights.rank / (1 + ranks[at]),
        )
        for at, document in enumerate(documents)
    ]


def _compared(document: Document) -> bool:
    return bool(document.passage.sentences) or not document.units


def _own(document: Document, query: Mapping[str, float]) -> list[float]:
    asked = query.keys()
    return [math.fsum(query[term] for term in asked & unit) for unit in document.unit_terms]


def _ranks(documents: Sequence[Document]) -> list[int]:
    """How many distinct scores are better than each document's: the retriever's opinion, whatever its scale."""
    order = {score: rank for rank, score in enumerate(sorted({one.passage.score for one in documents}, reverse=True))}
    return [order[document.passage.score] for document in documents]


def _of_units(
    document: Document,
    weights: Weights,
    query: Mapping[str, float],
    own: Sequence[float],
    cosines: Sequence[float],
    base: float,
) -> list[float]:
    """What a document's units are worth: what they share with their passage, `base` among it, and their own."""
    title = query.keys() & document.title_terms
    base += weights.title * math.fsum(query[term] for term in title)
    base += weights.passage * math.fsum(query[term] for term in query.keys() & title.union(*document.unit_terms))
    made = []
    for at, size in enumerate(document.sizes):
        around = slice(max(0, at - 1), at + 2)
        worth = base + weights.own * own[at] + weights.beside * max(own[around])
        worth += weights.cosine * cosines[at] + (weights.first if at == 0 else 0.0)
        made.append(worth / max(1, size) ** weights.length)
    return made


def _bridges(documents: Sequence[Document], fits: Sequence[Sequence[float]]) -> list[float]:
    """For each document how well the best unit of another one that names its title fits the question; 0 for none.

    A question whose answer takes two steps ("the town where the author of … was born") has no word of the second.
    """
    titles = {document.bare_title for document in documents if document.bare_title}
    by_term: dict[str, list[frozenset[str]]] = {}
    for title in sorted(titles, key=sorted):
        by_term.setdefault(max(title, key=lambda term: (len(term), term)), []).append(title)
    best: dict[frozenset[str], float] = {}
    for document, fit in zip(documents, fits, strict=True):
        for unit, value in zip(document.unit_terms, fit, strict=True):
            for title in (title for term in by_term.keys() & unit for title in by_term[term]):
                if title <= unit and not title <= document.bare_title:
                    best[title] = max(best.get(title, 0.0), value)
    return [best.get(document.bare_title, 0.0) for document in documents]
