"""Whether a passage bears a sentence out, and where; pure.

Words decide, so that it takes a millisecond and no model: most of what the sentence says stands within a few sentences
of the passage, with every figure and name, and nothing is denied on one side alone (`loadtest.citation_quality`).
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

import msgspec

from hasten.messages.retrieve import Passage
from hasten.orchestrator.verification.claim import spans
from hasten.orchestrator.verification.reading import OPPOSITES, Reading, demanded, reading

COVERED = 0.4
"""The share of what a sentence says that has to stand there; the best on the half of loadtest.citation_quality that is
fitted on."""
WIDEST = 3
"""Sentences of a passage that may bear one out together."""
WIDER = 0.15
"""The share that each of them but the first has to bring: with less, a name from another sentence is taken for one of
this; with more, what two sentences say together is not found."""
HEAVY = 2.0
"""What a figure or a name weighs, where another word weighs 1."""
KEPT = 256
"""Passages that one replica remembers having read."""
Fault = Literal["", "words", "figures", "names", "denial", "opposite"]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that has been read: its sentences by their places, and its title."""

    passage: str
    places: list[tuple[int, int]]
    sentences: list[Reading]
    title: Reading


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """The best place of a passage for a sentence, `text[start:end]` of the passage, how much of the sentence stands
    there, and what is wrong with it: nothing where it is borne out."""

    passage: str
    start: int
    end: int
    covered: float
    fault: Fault = ""


class Shelf:
    """The passages that were read last, since the same ones come again: reading one takes 0.2 ms."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._read: OrderedDict[tuple[str, str, str], Evidence] = OrderedDict()

    def evidence(self, passage: Passage) -> Evidence:
        """A passage as it was read; two of the same id and another text are two."""
        key = (passage.id, passage.title, passage.text)
        made = self._read.get(key)
        if made is None:
            made = self._read[key] = evidence_of(passage)
            if len(self._read) > self._most:
                self._read.popitem(last=False)
        else:
            self._read.move_to_end(key)
        return made


def evidence_of(passage: Passage) -> Evidence:
    """Reads a passage."""
    places = list(spans(passage.text))
    title = reading(f"{passage.title} {passage.heading}")
    sentences = [reading(passage.text[start:end]) for start, end in places]
    return Evidence(passage=passage.id, places=places, sentences=sentences, title=title)


def support(claim: Reading, evidence: Evidence, covered: float = COVERED) -> Support | None:
    """The best place for a sentence in a passage; None in an empty one."""
    if not evidence.sentences:
        return None
    share = _Share(claim, evidence.title)
    widest = WIDEST if share.of(evidence.sentences) >= covered else 1
    best = (-1.0, 0, 0)
    for first in range(len(evidence.sentences)):
        for last in range(first, min(first + widest, len(evidence.sentences))):
            found = share.of(evidence.sentences[first : last + 1]) - WIDER * (last - first)
            if found > best[0]:
                best = (found, first, last)
    _, first, last = best
    there = evidence.sentences[first : last + 1]
    there_share = share.of(there)
    return Support(
        passage=evidence.passage,
        start=evidence.places[first][0],
        end=evidence.places[last][1],
        covered=round(there_share, 3),
        fault=_fault(claim, there, evidence.title, there_share, covered),
    )


class _Share:
    """How much of what a sentence says stands in others, beside a title."""

    def __init__(self, claim: Reading, title: Reading) -> None:
        self._weights = {
            term: HEAVY if term in claim.names or term[0].isdigit() else 1.0 for term in claim.terms - title.terms
        }
        self._total = sum(HEAVY if term in claim.names or term[0].isdigit() else 1.0 for term in claim.terms)
        self._missing = sum(self._weights.values())

    def of(self, sentences: Sequence[Reading]) -> float:
        """The share of the sentence, from 0 to 1."""
        if not self._total:
            return 1.0
        weights = self._weights
        found: set[str] = set()
        for one in sentences:
            found |= one.terms & weights.keys()
        return (self._total - self._missing + sum(weights[term] for term in found)) / self._total


def _fault(claim: Reading, there: Sequence[Reading], title: Reading, share: float, covered: float) -> Fault:
    if share < covered:
        return "words"
    if demanded(claim) - title.figures.union(*(one.figures for one in there)):
        return "figures"
    if claim.names - title.words.union(*(_whole(one) for one in there)):
        return "names"
    nearest = max(there, key=lambda one: len(one.terms & claim.terms))
    both = claim.terms & nearest.terms
    if (claim.denied & both) ^ (nearest.denied & both) or (bool(claim.denied) and not nearest.denied):
        return "denial"
    turned = {word for word in claim.words if OPPOSITES.get(word) in nearest.words and word not in nearest.words}
    return "opposite" if any(OPPOSITES[word] not in claim.words for word in turned) else ""


def _whole(one: Reading) -> frozenset[str]:
    return one.words | {word.removesuffix("'s") for word in one.words}
