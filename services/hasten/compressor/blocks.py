"""Finds the blocks of a text: headings, list items, table rows, fenced code, JSON values, and paragraphs.

It reads Markdown as people write it and plain text alike. Every step is linear in the text's length, whatever it holds.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

Kind = Literal["sentence", "heading", "item", "header", "row", "code", "json"]

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r"\s*(```+|~~~+)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+\S")
_ITEM = re.compile(r"\s*(?:[-*+•‣◦–]|\d{1,3}[.)]|[A-Za-z][.)])\s+\S")
_RULE = re.compile(r"[\s:|-]*$")
_SPACE = re.compile(r"\s*")
_SHORT_LINE = 50
"""A line of prose that was wrapped by hand is longer than this; a shorter one ends where it ends."""
_JSON_TRIES = 32
"""After so many failures a text is taken not to hold JSON: each costs a pass over the text before it."""
_DECODER = json.JSONDecoder()


class Block(msgspec.Struct, frozen=True):
    """A stretch of a text by its span. A paragraph is of the kind sentence; `header` is a table's head."""

    kind: Kind
    start: int
    end: int


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a text in order; only white space lies between them."""
    lines = _Lines(text)
    while (start := lines.next_start()) < len(text):
        for read in _READERS:
            found = read(lines)
            if found is not None:
                yield Block(found, start, lines.start(lines.at))
                break


class _Lines:
    """A text by its lines, and how far it has been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans = [found.span() for found in _LINE.finditer(text)]
        self.at = 0
        self.in_table = False
        self.no_json_before = 0
        self.json_tries = _JSON_TRIES

    def start(self, at: int) -> int:
        return self.spans[at][0] if at < len(self.spans) else len(self.text)

    def line(self, at: int) -> str:
        return self.text[slice(*self.spans[at])] if at < len(self.spans) else ""

    def next_start(self) -> int:
        """Where the next line that is not blank starts."""
        while self.at < len(self.spans) and not self.line(self.at).strip():
            self.at += 1
            self.in_table = False
        return self.start(self.at)


def _code(lines: _Lines) -> Kind | None:
    """A fenced block; an unclosed one goes to the end of the text."""
    opened = _FENCE.match(lines.line(lines.at))
    if opened is None:
        return None
    lines.at += 1
    while lines.at < len(lines.spans):
        lines.at += 1
        if lines.line(lines.at - 1).strip() == opened[1]:
            break
    return "code"


def _json(lines: _Lines) -> Kind | None:
    """A JSON object or list that ends with its line. Where one turned out to be none, its inner lines are not tried."""
    found = _SPACE.match(lines.text, lines.start(lines.at))
    begin = found.end() if found else 0
    if lines.text[begin] not in "{[" or begin < lines.no_json_before or not lines.json_tries:
        return None
    try:
        _, stop = _DECODER.raw_decode(lines.text, begin)
    except (json.JSONDecodeError, RecursionError) as error:
        lines.json_tries -= 1
        lines.no_json_before = error.pos if isinstance(error, json.JSONDecodeError) else len(lines.text)
        return None
    last = lines.at
    while lines.start(last + 1) < stop:
        last += 1
    if lines.text[stop : lines.start(last + 1)].strip():
        return None
    lines.at = last + 1
    return "json"


def _heading(lines: _Lines) -> Kind | None:
    if not _HEADING.match(lines.line(lines.at)):
        return None
    lines.at += 1
    return "heading"


def _table(lines: _Lines) -> Kind | None:
    """One row, or the head of a table together with the rule below it."""
    line, below = lines.line(lines.at), lines.line(lines.at + 1)
    ruled = "|" in line and "|" in below and "-" in below and bool(_RULE.match(below))
    if not (ruled or line.lstrip().startswith("|") or (lines.in_table and "|" in line)):
        lines.in_table = False
        return None
    lines.at += 2 if ruled else 1
    lines.in_table = True
    return "header" if ruled else "row"


def _paragraph(lines: _Lines) -> Kind:
    """An item or a paragraph with the lines that go on with it."""
    kind: Kind = "item" if _ITEM.match(lines.line(lines.at)) else "sentence"
    lines.at += 1
    while lines.at < len(lines.spans) and _goes_on(lines.line(lines.at - 1).rstrip(), lines.line(lines.at)):
        lines.at += 1
    return kind


def _goes_on(before: str, line: str) -> bool:
    """Whether a line belongs to the paragraph of the line before it."""
    content = line.lstrip()
    if not content or content[0] in "{[|" or before.endswith((":", "：")):
        return False
    if _HEADING.match(line) or _ITEM.match(line) or _FENCE.match(line):
        return False
    return len(before) >= _SHORT_LINE or content[0].islower()


_READERS: tuple[Callable[[_Lines], Kind | None], ...] = (_code, _json, _heading, _table, _paragraph)
