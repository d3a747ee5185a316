"""Chooses the units of the passages that a question needs, under a budget of tokens."""

import math
from collections.abc import Mapping, Sequence

from hasten.compressor.document import Document
from hasten.compressor.reference import leans
from hasten.compressor.saying import saying
from hasten.compressor.worth import worths
from hasten.terms import terms, weights

_EARLIER = 0.3
_FEW_TERMS = 4
"""A question with fewer terms than this ("And a new pump?") leans on the turn before it."""
_REACH = 1
"""So many sentences are brought along for one that leans on what was said before."""

_TELLING = 4
"""A sentence of fewer words ("Yes.") takes its meaning from what is before it, and may be said again."""
_Said = tuple[str, tuple[str, ...], tuple[str, ...]]


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
    what has been said already is not said again. One that opens with a pronoun brings the sentence before it where
    there is room. Neither the order of the documents nor that of equals matters.
    """
    picked = _Picked(documents, room)
    candidates = [(at, unit) for at, document in enumerate(documents) for unit in range(len(document.units))]
    worth = [one for each in worths(documents, query) for one in each]
    ranked = sorted(zip(worth, candidates, strict=True), key=lambda one: (-one[0], *_name(documents, one[1])))
    for _, (at, unit) in ranked:
        picked.try_unit(at, unit)
    return [sorted(kept) for kept in picked.kept]


def _name(documents: Sequence[Document], candidate: tuple[int, int]) -> tuple[str, str, int]:
    """What decides between units of equal worth: nothing that depends on the order of the documents."""
    document = documents[candidate[0]]
    return document.units[candidate[1]].text, document.passage.id, candidate[1]


class _Picked:
    """What has been chosen so far, and the tokens that are left."""

    def __init__(self, documents: Sequence[Document], room: int) -> None:
        self.documents, self.room = documents, room
        self.kept: list[set[int]] = [set() for _ in documents]
        self._said: set[_Said] = set()
        for at, document in enumerate(documents):
            if document.pinned:
                self._take(at, set(range(len(document.units))))

    def try_unit(self, at: int, unit: int) -> None:
        """Takes a unit with its leads if they fit and say something new."""
        document = self.documents[at]
        if unit in self.kept[at] or document.units[unit].kind in ("heading", "header"):
            return
        said = self._saying(at, unit)
        if len(said[-1]) >= _TELLING and said in self._said:
            return
        wanted = self._with_leads(at, unit)
        head = 0 if self.kept[at] else document.head
        for units in (wanted | self._before(at, unit), wanted):
            cost = sum(document.sizes[one] for one in units) + head
            if cost <= self.room:
                self.room -= cost
                self._take(at, units)
                return

    def _take(self, at: int, units: set[int]) -> None:
        self.kept[at] |= units
        self._said.update(self._saying(at, one) for one in units)

    def _saying(self, at: int, unit: int) -> _Said:
        """What a unit says of what: the same sentence under another title or heading is about something else."""
        document = self.documents[at]
        above, lead = [], document.units[unit].lead
        while lead >= 0:
            above.append(document.units[lead].text)
            lead = document.units[lead].lead
        return document.title.casefold(), tuple(above), saying(document.units[unit].text)

    def _before(self, at: int, unit: int) -> set[int]:
        """The sentences that a pronoun or the like at the start of this one refers to, as far as they are near by."""
        document, found = self.documents[at], set[int]()
        while leans(document.units[unit].text) and unit and len(found) < _REACH:
            before = document.units[unit - 1]
            if before.kind != "sentence" or document.units[unit].kind != "sentence":
                break
            unit -= 1
            if unit in self.kept[at]:
                break
            found.add(unit)
        return found

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
