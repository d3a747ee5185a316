"""Splits text into units that are kept or dropped whole: sentences, list items, table rows, code blocks, JSON values.

A unit is a span of the text as it stands, so what is kept is verbatim and no word, figure or character is ever cut.
Where a boundary is in doubt (an abbreviation, an initial, a date) there is none: keeping two together does no harm.
"""

import re
from collections.abc import Iterator

import msgspec

from hasten.compressor.blocks import Block, Kind, blocks

_TERMINATOR = re.compile(r"""[.!?…؟।۔]+["'”’»)\]*_]*(?=\s|$)|[。！？｡]+[」』”’）)]*""")
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘«]*$")
_NEXT_WORD = re.compile(r"\s*([^\s.,;:!?]*)")
_LINE = re.compile(r"[^\n]+")
_WORD_REACH = 24
_LONG = 1500
"""Text without a single boundary for this many characters is divided at its lines (a log, an address list)."""

_WORDS = {
    "abbreviations": "mr mrs ms dr prof st sr jr vs e.g i.e cf al approx ca dept fig figs eq vol pp ed eds inc ltd co "
    "corp est gen col lt sgt capt rev hon gov sen rep ave blvd rd jan feb mar apr jun jul aug sep sept oct nov dec mon "
    "tue wed thu fri z.b d.h bzw ggf evtl inkl exkl nr str tel abs u.a o.ä hr fr dipl ing p.ej sra mme mlle env",
    "before a number": "no nos p pp art sec ch op nr vol fig para ver rev",
    "months": "januar februar märz april mai juni juli august september oktober november dezember jänner",
}
"""After these a full stop ends no sentence; after the second only before a figure; before the third not after one."""
_ABBREVIATIONS, _BEFORE_A_NUMBER, _MONTHS = (frozenset(words.split()) for words in _WORDS.values())


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A span of a text that is kept or dropped whole.

    `block` numbers the paragraphs, items and rows: units of one block follow each other on a line. `lead` is the index
    of the unit without which this one cannot be understood (its heading, table head, list introduction; of a heading
    the one that it is under), or -1.
    """

    kind: Kind
    text: str
    start: int
    end: int
    block: int
    lead: int = -1


def split(text: str) -> list[Unit]:
    """The units of a text in order. Together they hold all of it but the white space between them."""
    units: list[Unit] = []
    heading = group = -1
    above: list[tuple[int, int]] = []
    for number, block in enumerate(blocks(text)):
        first = len(units)
        group = _group_lead(units, block.kind, heading, group)
        lead = {"item": group, "row": group}.get(block.kind, heading)
        if block.kind == "heading":
            lead = _parent(above, _level(text[block.start : block.end]), first)
        for start, end in _spans(text, block):
            own = first if block.kind == "item" and len(units) > first else lead
            units.append(Unit(kind=block.kind, text=text[start:end], start=start, end=end, block=number, lead=own))
        if block.kind == "heading":
            heading = first
    return units


def _level(heading: str) -> int:
    stripped = heading.lstrip()
    return len(stripped) - len(stripped.lstrip("#"))


def _parent(above: list[tuple[int, int]], level: int, unit: int) -> int:
    """The heading that a new one of this level is under, or -1; `above` are the levels and units of those still open,
    to which it is added."""
    while above and above[-1][0] >= level:
        above.pop()
    parent = above[-1][1] if above else -1
    above.append((level, unit))
    return parent


def _group_lead(units: list[Unit], kind: Kind, heading: int, group: int) -> int:
    """What the items of a list or the rows of a table hang on: the table's head, the list's introduction, a heading."""
    last = units[-1] if units else None
    if last is None or kind not in ("item", "row"):
        return heading
    if last.kind == kind:
        return group
    introduces = last.kind == "header" if kind == "row" else last.text.endswith((":", "："))
    return len(units) - 1 if introduces else heading


def _spans(text: str, block: Block) -> Iterator[tuple[int, int]]:
    if block.kind not in ("sentence", "item"):
        yield _trimmed(text, block.start, block.end)
        return
    for start, end in _sentences(text, block.start, block.end):
        if end - start > _LONG and "\n" in text[start:end]:
            yield from (_trimmed(text, *line.span()) for line in _LINE.finditer(text, start, end) if line[0].strip())
        else:
            yield start, end


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    begin = start
    for found in _TERMINATOR.finditer(text, start, end):
        if _ends_here(text, found, begin, end):
            yield _trimmed(text, begin, found.end())
            begin = found.end()
    if text[begin:end].strip():
        yield _trimmed(text, begin, end)


def _ends_here(text: str, found: re.Match[str], begin: int, end: int) -> bool:
    """Whether a sentence ends at this terminator, judged by the word before it and the one after it."""
    mark = found[0]
    if mark[0] in "。！？｡":
        return True
    after = _NEXT_WORD.match(text, found.end(), end)
    following = after[1] if after else ""
    if following[:1].islower():
        return False
    if not mark.startswith(".") or mark.startswith((".!", "..", ".?")):
        return True
    before = _LAST_WORD.search(text, max(begin, found.start() - _WORD_REACH), found.start())
    word = before[0] if before else ""
    alone = found.start() - begin <= _WORD_REACH and text[begin : found.start()].strip() == word
    return not _abbreviates(word, following, alone=alone)


def _abbreviates(word: str, following: str, *, alone: bool) -> bool:
    """Whether the full stop after `word` shortens or numbers it; `alone` says that nothing comes before the word."""
    low = word.lower()
    if word.isdigit():
        return alone or (len(word) <= 2 and following.lower() in _MONTHS)
    if low in _BEFORE_A_NUMBER and following[:1].isdigit():
        return True
    initials = all(len(part) == 1 and part.isalpha() for part in word.split("."))
    return low in _ABBREVIATIONS or (initials and low not in ("a.m", "p.m") and word != "I")
