"""A passage made ready for selection: its units with their tokens, its title line, and the text of what was kept."""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from hasten.compressor.sentences import Unit, split
from hasten.messages.retrieve import Passage
from hasten.terms import terms

Counts = Callable[[Sequence[str]], list[int]]
_NUMBER = re.compile(r"(?<!\S)\[(?=\d{1,3}\])")
"""What a passage in the prompt begins with."""
Places = Callable[[int], int]
"""From a character of the text that was made ready to the same character of the passage's."""


class Document:
    """One passage; `sizes` are the tokens of its units, `head` those of its title line, `total` of all of it."""

    def __init__(self, passage: Passage, title: str, text: str, units: list[Unit], places: Places) -> None:
        self.passage, self.title, self.text, self.units, self._places = passage, title, text, units, places
        self.sizes: list[int] = []
        self.head = 0
        self.pinned = passage.metadata.get("keep") is True and bool(units)

    @property
    def total(self) -> int:
        """Tokens of the whole passage with its title line; 0 for one without text."""
        return self.head + sum(self.sizes) if self.units else 0

    def size(self, kept: Sequence[int]) -> int:
        """Tokens of these units with the title line; 0 for none."""
        return self.head + sum(self.sizes[at] for at in kept) if kept else 0

    @cached_property
    def unit_terms(self) -> list[frozenset[str]]:
        """The terms of each unit."""
        return [frozenset(terms(unit.text)) for unit in self.units]

    @cached_property
    def bare_title(self) -> frozenset[str]:
        """The terms of the document's own title, without the headings."""
        return frozenset(terms(self.passage.title))

    @cached_property
    def title_terms(self) -> frozenset[str]:
        """The terms of the title line."""
        return frozenset(terms(self.title))

    @cached_property
    def cosines(self) -> list[float]:
        """How near each unit is to the question: the nearest of the passage's sentences that it shares text with.

        One that the retriever has not compared (a heading) is as near as the least near of the others.
        """
        compared = self.passage.sentences
        least = min((one.score for one in compared), default=0.0)
        found, first = [], 0
        for start, end in map(self._place, self.units):
            while first < len(compared) and compared[first].end <= start:
                first += 1
            inside = itertools.takewhile(lambda one, end=end: one.start < end, compared[first:])  # type: ignore[misc]
            found.append(max((one.score for one in inside), default=least))
        return found

    def _place(self, unit: Unit) -> tuple[int, int]:
        """Where a unit stands in the passage's text, before anything was made safe or left out."""
        return self._places(unit.start), self._places(unit.end - 1) + 1

    def spans(self, kept: Sequence[int]) -> list[tuple[int, int]]:
        """The stretches of the document's text that these units are, in order; neighbours are one stretch."""
        found: list[tuple[int, int]] = []
        for at, index in enumerate(kept):
            start, end = (self.passage.start + place for place in self._place(self.units[index]))
            if at and kept[at - 1] == index - 1:
                found[-1] = (found[-1][0], end)
            else:
                found.append((start, end))
        return found

    def extract(self, kept: Sequence[int]) -> str:
        """The text of the units with these indices, which are in order; white space between neighbours as it was."""
        if len(kept) == len(self.units):
            return self.text.strip("\n")
        pieces: list[str] = []
        for at, index in enumerate(kept):
            if at:
                pieces.append(self._between(kept[at - 1], index))
            pieces.append(self.units[index].text)
        return "".join(pieces)

    def _between(self, left: int, right: int) -> str:
        before, after = self.units[left], self.units[right]
        if right == left + 1:
            return self.text[before.end : after.start]
        if before.block != after.block:
            return "\n"
        return " " if self.text[after.start - 1].isspace() else ""


def documents(passages: Iterable[Passage], neutral: Callable[[str], str], counts: Counts) -> list[Document]:
    """Splits every passage and counts all units in one go."""
    made = []
    for passage in passages:
        title = _unnumbered(neutral(_title(passage)))
        safe = _unnumbered(neutral(passage.text))
        text = _body(safe, title)
        made.append(Document(passage, title, text, split(text), _places(passage.text, safe, len(safe) - len(text))))
    pieces = [unit.text for document in made for unit in document.units] + [
        _header(document.title) for document in made
    ]
    sizes = iter(counts(pieces))
    for document in made:
        document.sizes = [next(sizes) + 1 for _ in document.units]
    for document in made:
        document.head = next(sizes) + 1
    return made


def _unnumbered(text: str) -> str:
    """The text with a space in every `[2]` that could pose as the beginning of another passage, to be cited as that."""
    return _NUMBER.sub("[ ", text)


def _places(text: str, safe: str, left_out: int) -> Places:
    """`safe` is the text with spaces put in, of which the first `left_out` characters are not there."""
    if safe == text:
        return lambda at: at + left_out
    places, at = [], 0
    for character in safe:
        places.append(min(at, len(text) - 1))
        if at < len(text) and text[at] == character:
            at += 1
    return lambda at: places[at + left_out]


def _title(passage: Passage) -> str:
    """One line that names the passage: its title, and its heading where that adds something."""
    names = [passage.title] if passage.heading in passage.title else [passage.title, passage.heading]
    return " › ".join(" ".join(name.split()) for name in names if name.strip())


def _body(text: str, title: str) -> str:
    """The text without headings at its start that only repeat the title line, if there is more to it."""
    known = set(terms(title))
    first, _, rest = text.lstrip().partition("\n")
    while first.startswith("#") and rest.strip() and set(terms(first)) <= known:
        text = rest
        first, _, rest = text.lstrip().partition("\n")
    return text


def _header(title: str) -> str:
    return f"[10] {title}\n"
