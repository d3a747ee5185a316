"""Cuts a document into chunks to search by and passages to read, with exact spans; pure.

A chunk is small (about 60 words, so that what it is about is one thing), keeps to sentence ends and never crosses a
heading. A passage is what a reader gets for it: the chunk with its neighbours of the same section and the section's
heading, as far as they fit. Each chunk belongs to one passage, so the same text is never returned twice.
"""

import math
from bisect import bisect_left, bisect_right

import msgspec

from hasten.retriever.blocks import Block, Section, sections
from hasten.retriever.sentences import Span, divided, sentences, size

MAX_WORDS = 60
"""What sentences are joined up to; with their parent 60 words found more of chunking_eval than 120 (decision 0027)."""
MAX_WHOLE = 120
"""A list, a table or code up to this many words is not cut, and is joined with the paragraph that leads to it; the
words, with title and heading, fit the model's window of 256 tokens."""
MAX_LEAD = 30
"""What a chunk hangs on is embedded with it up to this many words."""
_LEADING = ":?：？؟"
MAX_DEPTH = 4
"""How many of the headings above a chunk are kept with it, the nearest ones."""


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a document to search by: `text[start:end]`.

    `number` counts from 0, `section` too. `heading` is the path of headings above it. `passage` is the number of the
    passage it belongs to, which spans `text[passage_start:passage_end]`. `sentences` are the stretches of it that say
    something by themselves: sentences, items, rows, or code as a whole. `lead` is what it cannot be understood without
    and does not hold: the head of the table it is from, or the line that introduces its list.
    """

    number: int
    start: int
    end: int
    section: int = 0
    heading: str
    passage: int
    passage_start: int
    passage_end: int
    sentences: list[Span] = []
    lead: Span = Span(0, 0)


class _Atom(msgspec.Struct, frozen=True):
    """A span that is not cut, and up to how many words it may be joined with what is before it.

    `lead` is what it hangs on. One that `leads` itself (a question, a line that ends in a colon) goes with the next.
    """

    span: Span
    room: int
    sentences: list[Span]
    lead: Span = Span(0, 0)
    leads: bool = False


class _Piece(msgspec.Struct):
    """Atoms that are a chunk together."""

    atoms: list[_Atom]

    @property
    def span(self) -> Span:
        return Span(self.atoms[0].span.start, self.atoms[-1].span.end)

    @property
    def lead(self) -> Span:
        first = self.atoms[0]
        return first.lead if first.lead.end <= first.span.start else Span(0, 0)

    @property
    def sentences(self) -> list[Span]:
        return [one for atom in self.atoms for one in atom.sentences]


def chunks(text: str, media_type: str, *, title: str = "", passage_chars: int = 800) -> list[Chunk]:
    """The chunks of a document in order: together they hold every word that is not in a heading above one of them.

    `passage_chars` is the size up to which chunks of one section share a passage. A first heading that repeats `title`
    is left out of the paths.
    """
    found: list[Chunk] = []
    for place, section in enumerate(sections(text, media_type)):
        heading = _path(section, title)
        pieces = _packed(text, _hung(text, section.blocks))
        for passage in _passages(pieces, passage_chars):
            first = section.start if passage[0] is pieces[0] else passage[0].span.start
            number = found[-1].passage + 1 if found else 0
            for piece in passage:
                chunk = Chunk(
                    number=len(found),
                    start=piece.span.start,
                    end=piece.span.end,
                    section=place,
                    heading=heading,
                    passage=number,
                    passage_start=first,
                    passage_end=passage[-1].span.end,
                    sentences=piece.sentences,
                    lead=piece.lead,
                )
                found.append(chunk)
    return found


def _path(section: Section, title: str) -> str:
    texts = [heading.text for heading in section.headings]
    if texts and texts[0] == title:
        texts = texts[1:]
    return " > ".join(texts[-MAX_DEPTH:])


def _hung(text: str, blocks: list[Block]) -> list[_Atom]:
    """The atoms of a section: rows hang on the head of their table, items on the line that introduces their list."""
    atoms: list[_Atom] = []
    for block in blocks:
        lead = Span(0, 0)
        if block.kind == "table":
            lead = block.parts[0]
        elif block.kind == "list" and atoms and atoms[-1].leads:
            lead = atoms[-1].span
        short = size(text[lead.start : lead.end]) <= MAX_LEAD
        atoms += _atoms(text, block, lead if short else Span(0, 0))
    return atoms


def _atoms(text: str, block: Block, lead: Span) -> list[_Atom]:
    if block.kind == "text":
        parts = sentences(text, block.span)
    elif size(text[block.span.start : block.span.end]) <= MAX_WHOLE:
        return [_Atom(block.span, MAX_WHOLE, _sentences(text, block, block.span), lead)]
    else:
        parts = block.parts
    pieces = [(part, piece) for part in parts for piece in divided(text, part, MAX_WORDS)]
    atoms = [_Atom(piece, MAX_WORDS, _sentences(text, block, piece), lead) for _, piece in pieces]
    if block.kind == "text" and atoms and text[atoms[-1].span.end - 1] in _LEADING:
        atoms[-1] = msgspec.structs.replace(atoms[-1], leads=True)
    return atoms


def _sentences(text: str, block: Block, piece: Span) -> list[Span]:
    """What of a piece can be asked for by itself; a list's items, a table's rows, code as a whole, else sentences."""
    if block.kind == "code":
        return [piece]
    first = bisect_left(block.parts, piece.start, key=lambda part: part.start)
    last = bisect_right(block.parts, piece.end, key=lambda part: part.end)
    inside = block.parts[first:last] or [piece]
    found = inside if block.kind == "table" else [one for part in inside for one in sentences(text, part)]
    return [one for one in found if any(map(str.isalnum, text[one.start : one.end]))]


def _packed(text: str, atoms: list[_Atom]) -> list[_Piece]:
    """Joins neighbours into chunks of about equal size, so that no crumb is left at the end of a section."""
    total = sum(size(text[atom.span.start : atom.span.end]) for atom in atoms)
    goal = total / max(1, math.ceil(total / MAX_WORDS))
    packed: list[_Piece] = []
    for atom in atoms:
        if packed and _joins(text, packed[-1].span, atom, goal):
            packed[-1].atoms.append(atom)
            continue
        led = packed and len(packed[-1].atoms) > 1 and packed[-1].atoms[-1].leads
        if led and _joins(text, packed[-1].atoms[-1].span, atom, goal):
            packed.append(_Piece([packed[-1].atoms.pop(), atom]))
        else:
            packed.append(_Piece([atom]))
    return packed


def _joins(text: str, before: Span, atom: _Atom, goal: float) -> bool:
    if atom.room == MAX_WORDS and size(text[before.start : before.end]) >= goal:
        return False
    return atom.span.end - before.start <= 10 * atom.room and size(text[before.start : atom.span.end]) <= atom.room


def _passages(pieces: list[_Piece], passage_chars: int) -> list[list[_Piece]]:
    grouped: list[list[_Piece]] = []
    for piece in pieces:
        if grouped and piece.span.end - grouped[-1][0].span.start <= passage_chars:
            grouped[-1].append(piece)
        else:
            grouped.append([piece])
    return grouped
