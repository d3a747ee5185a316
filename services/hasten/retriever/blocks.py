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
_BOLD = re.compile(r"(\*\*|__)(?=\S)([^*_]+?)(?<=\S)\1:?")
_NUMBERED = re.compile(r"(\d{1,3}(?:\.\d{1,3}){0,5})\.?[ \t]+(\S.*)")
_UNDERLINED = re.compile(r"([^\n\r]+)(?:\r\n?|\n)(={3,}|-{3,})")
_FRONT = re.compile(r"---[ \t]*(?:\r\n?|\n)[\w-]+[ \t]*:[\s\S]{0,4000}?(?:\r\n?|\n)(?:---|\.\.\.)[ \t]*(?=[\r\n]|$)")
"""Facts about a document before its text, as static site generators have them: `---`, `name: value` lines, `---`."""
_LINE_LEVEL = 10
"""Of a line that is a heading in all but the marks: below every marked one."""
_MAX_LINE = 80
_LETTERS = 4
_NEWLINE = re.compile(r"\r\n?|\n")
_NOT_A_NEWLINE = re.compile(r"[^\r\n]+")
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
    found = [Section()]
    for blank, group in groupby(_lines(text), lambda line: not text[line.start : line.end].strip()):
        lines = list(group)
        if not blank:
            _add_or_open(found, text, trim(text, lines[0].start, lines[-1].end))
    _close(found[-1])
    return found


def _add_or_open(found: list[Section], text: str, span: Span) -> None:
    """Adds a paragraph, or opens a section where it is a heading in all but the marks."""
    if (named := _named(text[span.start : span.end])) is not None:
        _open(found, Heading(*named, span))
    else:
        _add(found, Block(span=span))


def _named(paragraph: str) -> tuple[int, str] | None:
    """The level and text of a paragraph that is a heading: underlined, bold as a whole, numbered, or in capitals."""
    if not 0 < len(paragraph) <= 2 * _MAX_LINE:
        return None
    if under := _UNDERLINED.fullmatch(paragraph):
        return (1 if under[2][0] == "=" else 2), under[1].strip()
    if "\n" in paragraph or "\r" in paragraph or len(paragraph) > _MAX_LINE or paragraph[-1] in ".!?;,。！？":
        return None
    if (bold := _BOLD.fullmatch(paragraph)) and bold[2][-1] not in ".!?;,。！？":
        return _LINE_LEVEL, bold[2].rstrip(":")
    if (numbered := _NUMBERED.fullmatch(paragraph)) and not numbered[2][0].islower() and numbered[2][0].isalpha():
        return _LINE_LEVEL + numbered[1].count("."), paragraph
    if (
        paragraph.isupper()
        and paragraph[0].isalnum()
        and sum(map(str.isalpha, paragraph)) >= _LETTERS
        and "|" not in paragraph
    ):
        return _LINE_LEVEL, paragraph.rstrip(":")
    return None


def _markdown(text: str) -> list[Section]:
    lines, tokens = _lines(text), _parser.parse(_without_front(text))
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
        elif token.type == "paragraph_open":
            _add_or_open(found, text, span(first, last))
        elif token.type != "hr":
            parts = [part for part in (span(*lines) for lines in _parts(tokens, at)) if part.end > part.start]
            _add(found, Block(span=span(first, last), kind=_KINDS.get(token.type, "text"), parts=parts))
    _add(found, Block(span=span(read, len(lines))))
    _close(found[-1])
    return found


def _without_front(text: str) -> str:
    """The text with empty lines for the front matter, whose end would else be read as the underline of a heading."""
    front = _FRONT.match(text)
    return _NOT_A_NEWLINE.sub("", front[0]) + text[front.end() :] if front else text


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
