"""Finds the sections of a document and the blocks in them: what a chunk may join and what it should not cut; pure."""

import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Literal

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token

from hasten.retriever.sentences import Span, trim

MAX_HEADING = 200
"""A longer heading, in characters, is read as a paragraph."""
Kind = Literal["text", "list", "table", "code"]
_KINDS: dict[str, Kind] = {
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "table_open": "table",
    "fence": "code",
    "code_block": "code",
}
_NEWLINE = re.compile(r"\r\n?|\n")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKS = re.compile(r"[*`]+")
_parser = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A paragraph, or a list, a table or code that belongs together; `parts` are its items, rows or lines."""

    span: Span
    kind: Kind = "text"
    parts: list[Span] = []


class Heading(msgspec.Struct, frozen=True):
    """A heading: 1 is the outermost level."""

    level: int
    text: str
    span: Span


class Section(msgspec.Struct):
    """Blocks under the headings that lead to them, from the outermost on; the last one is the section's own."""

    headings: tuple[Heading, ...] = ()
    blocks: list[Block] = []

    @property
    def start(self) -> int:
        """Where the section begins, its own heading included."""
        return self.headings[-1].span.start if self.headings else self.blocks[0].span.start


def sections(text: str, media_type: str) -> list[Section]:
    """The sections that hold something, in order. Every word is in a block, or in a heading above one.

    A text/plain document is one section of paragraphs; everything else is read as Markdown.
    """
    found = _plain(text) if media_type == "text/plain" else _markdown(text)
    return [section for section in found if section.blocks]


def _lines(text: str) -> list[Span]:
    """The lines as Markdown counts them, each with its line end."""
    ends = [found.end() for found in _NEWLINE.finditer(text)]
    if not ends or ends[-1] < len(text):
        ends.append(len(text))
    return [Span(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def _plain(text: str) -> list[Section]:
    blocks = []
    for blank, group in groupby(_lines(text), lambda line: not text[line.start : line.end].strip()):
        lines = list(group)
        if not blank:
            blocks.append(Block(span=trim(text, lines[0].start, lines[-1].end)))
    return [Section(blocks=blocks)]


def _markdown(text: str) -> list[Section]:
    lines, tokens = _lines(text), _parser.parse(text)
    found, read = [Section()], 0

    def span(first: int, last: int) -> Span:
        last = min(last, len(lines))
        return trim(text, lines[first].start, lines[last - 1].end) if first < last else Span(0, 0)

    for at, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        first, last = token.map
        _add(found, Block(span=span(read, first)))
        read = max(read, last)
        title = _title(tokens[at + 1].content) if token.type == "heading_open" else ""
        if title:
            _open(found, Heading(int(token.tag[1]), title, span(first, last)))
        elif token.type != "hr":
            parts = [part for part in (span(*lines) for lines in _parts(tokens, at)) if part.end > part.start]
            _add(found, Block(span=span(first, last), kind=_KINDS.get(token.type, "text"), parts=parts))
    _add(found, Block(span=span(read, len(lines))))
    _close(found[-1])
    return found


def _add(found: list[Section], block: Block) -> None:
    if block.span.end > block.span.start:
        found[-1].blocks.append(block)


def _open(found: list[Section], heading: Heading) -> None:
    above = found[-1].headings
    if above and above[-1].level >= heading.level:
        _close(found[-1])
    while above and above[-1].level >= heading.level:
        above = above[:-1]
    found.append(Section((*above, heading)))


def _close(section: Section) -> None:
    """A section with nothing in it and below it keeps its heading as its only block."""
    if section.headings and not section.blocks:
        section.blocks.append(Block(span=section.headings[-1].span))


def _title(markdown: str) -> str:
    """The words of a heading; empty when it has none or is too long to be one."""
    if len(markdown) > 2 * MAX_HEADING:
        return ""
    title = " ".join(_MARKS.sub("", _LINK.sub(r"\1", markdown)).split())
    return title if len(title) <= MAX_HEADING else ""


def _parts(tokens: list[Token], at: int) -> Iterator[tuple[int, int]]:
    """The line ranges that a block may be divided into when it is too large: a list's items, else its lines."""
    lines, kind = tokens[at].map, _KINDS.get(tokens[at].type)
    if kind is None or lines is None:
        return
    if kind != "list":
        yield from ((line, line + 1) for line in range(*lines))
        return
    starts = {lines[0], lines[1]}
    for token in tokens[at + 1 :]:
        if token.level == 0:
            break
        if token.type == "list_item_open" and token.map:
            starts.add(token.map[0])
    yield from pairwise(sorted(starts))
