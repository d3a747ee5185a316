"""Chooses the units of the passages that a question needs, under a budget of tokens."""

import math
import re
from collections.abc import Mapping, Sequence

from hasten.compressor.document import Document
from hasten.terms import terms, weights

_RANK, _RANK_HALF = 2.0, 1.0
_PASSAGE, _TITLE, _UNIT, _NEIGHBOUR, _FIRST = 2.0, 1.0, 1.0, 0.1, 0.2
_LENGTH = 0.15
"""Fitted by random search on half of six tasks made of nq_open_oracle and hotpot100, checked on the other half."""
_WORD_OR_SIGN = re.compile(r"\w+|(?<!\w)[-−](?=\w)|[^\w\s.,;:!?'\"“”‘’()*_#`|•-]")
_ARTICLES = frozenset({"a", "an", "the"})
_EARLIER = 0.3
_FEW_TERMS = 4
"""A question with fewer terms than this ("And a new pump?") leans on the turn before it."""


def query_of(text: str, earlier: str, documents: Sequence[Document]) -> dict[str, float]:
    """The terms of the question with their weights, which sum to 1 (none occurs: empty)."""
    units = [unit for document in documents for unit in document.unit_terms]
    asked = terms(text)
    found = weights(asked, units)
    if len(asked) < _FEW_TERMS and earlier:
        found = {term: _EARLIER * weight for term, weight in weights(terms(earlier), units).items()} | found
    total = math.fsum(found.values())
    return {term: weight / total for term, weight in found.items()} if total else {}


def choose(documents: Sequence[Document], query: Mapping[str, float], room: int) -> list[list[int]]:
    """The indices, in order, of the units to keep of each document, so that they cost at most `room` tokens.

    Best first by `worth`; one that does not fit is passed over for the next. A unit brings along what it hangs on, and
    what has been said already is not said again. Neither the order of the documents nor that of equals matters.
    """
    picked = _Picked(documents, room)
    candidates = [(at, unit) for at, document in enumerate(documents) for unit in range(len(document.units))]
    worths = [
        worth
        for document, rank in zip(documents, _ranks(documents), strict=True)
        for worth in _worths(document, rank, query)
    ]
    ranked = sorted(zip(worths, candidates, strict=True), key=lambda one: (-one[0], *_name(documents, one[1])))
    for _, (at, unit) in ranked:
        picked.try_unit(at, unit)
    return [sorted(kept) for kept in picked.kept]


def _name(documents: Sequence[Document], candidate: tuple[int, int]) -> tuple[str, str, int]:
    """What decides between units of equal worth: nothing that depends on the order of the documents."""
    document = documents[candidate[0]]
    return document.units[candidate[1]].text, document.passage.id, candidate[1]


def _ranks(documents: Sequence[Document]) -> list[int]:
    """How many distinct scores are better than each document's: the retriever's opinion, whatever its scale."""
    order = {score: rank for rank, score in enumerate(sorted({one.passage.score for one in documents}, reverse=True))}
    return [order[document.passage.score] for document in documents]


def _worths(document: Document, rank: int, query: Mapping[str, float]) -> list[float]:
    """What each unit is worth: its passage's rank and words, its own words, a little for its neighbours' and the first.

    Divided by a small power of the length, since a long unit takes the place of several others.
    """
    asked = frozenset(query)
    hits = [asked & unit for unit in document.unit_terms]
    title = asked & document.title_terms
    own = [math.fsum(query[term] for term in hit) for hit in hits]
    passage = _RANK / (1 + rank / _RANK_HALF) + _TITLE * math.fsum(query[term] for term in title)
    passage += _PASSAGE * math.fsum(query[term] for term in title.union(*hits))
    worths = []
    for at, size in enumerate(document.sizes):
        near = max(own[max(0, at - 1) : at + 2])
        worth = passage + _UNIT * own[at] + _NEIGHBOUR * near + (_FIRST if at == 0 else 0.0)
        worths.append(worth / max(1, size) ** _LENGTH)
    return worths


class _Picked:
    """What has been chosen so far, and the tokens that are left."""

    def __init__(self, documents: Sequence[Document], room: int) -> None:
        self.documents, self.room = documents, room
        self.kept: list[set[int]] = [set() for _ in documents]
        self._said: set[tuple[str, ...]] = set()
        for at, document in enumerate(documents):
            if document.pinned:
                self._take(at, set(range(len(document.units))))

    def try_unit(self, at: int, unit: int) -> None:
        """Takes a unit with its leads if they fit and say something new."""
        document = self.documents[at]
        if unit in self.kept[at] or document.units[unit].kind in ("heading", "header"):
            return
        wanted = self._with_leads(at, unit)
        cost = sum(document.sizes[one] for one in wanted) + (0 if self.kept[at] else document.head)
        if cost <= self.room and _saying(document.units[unit].text) not in self._said:
            self.room -= cost
            self._take(at, wanted)

    def _take(self, at: int, units: set[int]) -> None:
        self.kept[at] |= units
        self._said.update(_saying(self.documents[at].units[one].text) for one in units)

    def _with_leads(self, at: int, unit: int) -> set[int]:
        """The unit and what it hangs on, less what is there already and headings that only repeat the title."""
        document, wanted = self.documents[at], {unit}
        while (unit := document.units[unit].lead) >= 0 and unit not in self.kept[at]:
            if (
                document.units[unit].kind != "heading"
                or not set(terms(document.units[unit].text)) <= document.title_terms
            ):
                wanted.add(unit)
        return wanted


def _saying(text: str) -> tuple[str, ...]:
    """What two units must have in common to be the same: all words, figures and signs in order, but for articles."""
    return tuple(word for word in _WORD_OR_SIGN.findall(text.lower()) if word not in _ARTICLES)
