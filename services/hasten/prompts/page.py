"""A prompt by its sentences, and what of it are not the operator's own words (code, quotes, examples); pure."""

import re
from collections.abc import Iterator
from functools import cached_property

from hasten.compressor.sentences import Unit, split

_QUOTED = re.compile(
    r"`[^`\n]+`|\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|«[^»\n]{1,200}»|(?<!\w)'[^'\n]{2,80}'(?!\w)|https?://\S+"
)
_TAGGED = re.compile(r"<(examples?|sample|input|output|document|context)\b[^>]*>.*?</\1>", re.DOTALL | re.IGNORECASE)
_LABEL = re.compile(
    r"^[ \t]*(?:[-*][ \t]+)?\**(?:Q|A|Question|Answer|User|Assistant|Human|AI|Customer|Agent|Input|Output|"
    r"Example(?:[ ]?\d+)?)\**:\**(?=\s+[^\s{<$%])",
    re.MULTILINE,
)
_EXAMPLES = re.compile(r"\bexamples?\b", re.IGNORECASE)
MARKER = re.compile(r"\s*(?:[-*+•‣◦–]|\d{1,3}[.)]|[A-Za-z][.)])\s+")


class Page:
    """A text with its units; `said` are the operator's own sentences and list items."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.units = split(text)

    @cached_property
    def quoted(self) -> list[tuple[int, int]]:
        """What is cited rather than said, by its spans."""
        spans = [found.span() for found in _QUOTED.finditer(self.text)]
        spans += [found.span() for found in _TAGGED.finditer(self.text)]
        spans += [(unit.start, unit.end) for unit in self.units if unit.kind in ("code", "json")]
        return spans + list(self._examples())

    def _examples(self) -> Iterator[tuple[int, int]]:
        """What stands under a heading of examples, and paragraphs that a label of a speaker begins."""
        for unit in self.units:
            heading = self.heading(unit)
            under = heading is not None and _EXAMPLES.search(heading.text)
            if under or _LABEL.match(self.text, self.line_start(unit.start)):
                yield unit.start, unit.end

    @cached_property
    def said(self) -> list[Unit]:
        """The sentences and items that are instructions or facts, not quotes or examples as a whole."""
        own = [unit for unit in self.units if unit.kind in ("sentence", "item", "heading")]
        return [unit for unit in own if not self.is_quoted(unit.start, unit.end, whole=True)]

    def is_quoted(self, start: int, end: int, *, whole: bool = False) -> bool:
        """Whether a span touches something cited; with `whole` whether it lies in it."""
        if whole:
            return any(first <= start and end <= last for first, last in self.quoted)
        return any(first < end and start < last for first, last in self.quoted)

    def heading(self, unit: Unit) -> Unit | None:
        """The heading that a unit stands under."""
        while unit.lead >= 0:
            unit = self.units[unit.lead]
            if unit.kind == "heading":
                return unit
        return None

    def intro(self, unit: Unit) -> Unit | None:
        """What introduces the list that an item is in, if that is not a heading."""
        while unit.lead >= 0 and self.units[unit.lead].block == unit.block:
            unit = self.units[unit.lead]
        lead = self.units[unit.lead] if unit.lead >= 0 else None
        return lead if unit.kind == "item" and lead is not None and lead.kind != "heading" else None

    def body(self, unit: Unit) -> str:
        """The text of a unit without the mark of its item or heading."""
        return MARKER.sub("", unit.text, count=1) if unit.kind == "item" else unit.text.lstrip("# ")

    def line(self, at: int) -> int:
        """The number of the line that a character is on, from 1."""
        return self.text.count("\n", 0, at) + 1

    def line_start(self, at: int) -> int:
        """Where that line begins."""
        return self.text.rfind("\n", 0, at) + 1

    def without(self, unit: Unit) -> tuple[int, int]:
        """What goes when a unit goes: its line when it is alone there, else it and the white space behind it."""
        alone = sum(other.block == unit.block for other in self.units) == 1
        if alone:
            start, end = self.line_start(unit.start), unit.end
            rest = self.text[end:].split("\n", 1)[0]
            if not rest.strip() and not self.text[start : unit.start].strip():
                end = min(len(self.text), end + len(rest) + 1)
                between = self.text[:start].endswith("\n\n") or not start
                return start, end + (between and self.text[end : end + 1] == "\n")
        mark = MARKER.match(self.text, unit.start, unit.end) if unit.kind == "item" else None
        start, end = (mark.end() if mark else unit.start), unit.end
        while end < len(self.text) and self.text[end] in " \t":
            end += 1
        return start, end
