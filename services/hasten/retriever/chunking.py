"""Cuts a document into chunks to search by and passages to read, with exact spans; pure.

A chunk is small (about 60 words, so that what it is about is one thing), keeps to sentence ends and never crosses a
heading. A passage is what a reader gets for it: the chunk with its neighbours of the same section and the section's
heading, as far as they fit. Each chunk belongs to one passage, so the same text is never returned twice.
"""

import math

import msgspec

from hasten.retriever.blocks import Block, Section, sections
from hasten.retriever.sentences import Span, divided, sentences, size

MAX_WORDS = 60
"""What sentences are joined up to. On half of chunking_eval 40 and 120 words found less within 4,000 characters."""
MAX_WHOLE = 120
"""A list, a table or code up to this many words is not cut, and is joined with the paragraph that leads to it; the
words, with title and heading, fit the model's window of 256 tokens."""
MAX_DEPTH = 4
"""How many of the headings above a chunk are kept with it, the nearest ones."""


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a document to search by: `text[start:end]`.

    `number` counts from 0, `section` too. `heading` is the path of headings above it. `passage` is the number of the
    passage it belongs to, which spans `text[passage_start:passage_end]`.
    """

    number: int
    start: int
    end: int
    section: int = 0
    heading: str
    passage: int
    passage_start: int
    passage_end: int


class _Atom(msgspec.Struct, frozen=True):
    """A span that is not cut, and up to how many words it may be joined with what is before it."""

    span: Span
    room: int


def chunks(text: str, media_type: str, *, title: str = "", passage_chars: int = 800) -> list[Chunk]:
    """The chunks of a document in order: together they hold every word that is not in a heading above one of them.

    `passage_chars` is the size up to which chunks of one section share a passage. A first heading that repeats `title`
    is left out of the paths.
    """
    found: list[Chunk] = []
    for place, section in enumerate(sections(text, media_type)):
        heading = _path(section, title)
        spans = _packed(text, [atom for block in section.blocks for atom in _atoms(text, block)])
        for passage in _passages(spans, passage_chars):
            first = section.start if passage[0] == spans[0] else passage[0].start
            number = found[-1].passage + 1 if found else 0
            for span in passage:
                chunk = Chunk(
                    number=len(found),
                    start=span.start,
                    end=span.end,
                    section=place,
                    heading=heading,
                    passage=number,
                    passage_start=first,
                    passage_end=passage[-1].end,
                )
                found.append(chunk)
    return found


def _path(section: Section, title: str) -> str:
    texts = [heading.text for heading in section.headings]
    if texts and texts[0] == title:
        texts = texts[1:]
    return " > ".join(texts[-MAX_DEPTH:])


def _atoms(text: str, block: Block) -> list[_Atom]:
    if not block.whole:
        parts = sentences(text, block.span)
    elif size(text[block.span.start : block.span.end]) <= MAX_WHOLE:
        return [_Atom(block.span, MAX_WHOLE)]
    else:
        parts = block.parts
    return [_Atom(piece, MAX_WORDS) for part in parts for piece in divided(text, part, MAX_WORDS)]


def _packed(text: str, atoms: list[_Atom]) -> list[Span]:
    """Joins neighbours into chunks of about equal size, so that no crumb is left at the end of a section."""
    sizes = [size(text[atom.span.start : atom.span.end]) for atom in atoms]
    goal = sum(sizes) / max(1, math.ceil(sum(sizes) / MAX_WORDS))
    packed: list[Span] = []
    for atom in atoms:
        if packed and _joins(text, packed[-1], atom, goal):
            packed[-1] = Span(packed[-1].start, atom.span.end)
        else:
            packed.append(atom.span)
    return packed


def _joins(text: str, before: Span, atom: _Atom, goal: float) -> bool:
    if atom.room == MAX_WORDS and size(text[before.start : before.end]) >= goal:
        return False
    return atom.span.end - before.start <= 10 * atom.room and size(text[before.start : atom.span.end]) <= atom.room


def _passages(spans: list[Span], passage_chars: int) -> list[list[Span]]:
    grouped: list[list[Span]] = []
    for span in spans:
        if grouped and span.end - grouped[-1][0].start <= passage_chars:
            grouped[-1].append(span)
        else:
            grouped.append([span])
    return grouped
