"""Counts words and finds sentences in any language, by character offsets; pure."""

import re
from itertools import islice
from typing import NamedTuple
from unicodedata import category

_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f"
_PIECE = re.compile(rf"[{_IDEOGRAPHS}]|[^\W{_IDEOGRAPHS}]{{1,12}}|[^\w\s]{{1,12}}")
_CHARS = 10
_END = re.compile(
    r"""(?<![.!?…।؟۔])[.!?…।؟۔]++["'”’)\]»*_]*+(?=\s)|[。！？｡]++[」』”’）]*+|(?<=[\n\r])(?=\w[\w .'’-]{0,30}:\s)"""
)
"""Possessive, and tried only where a run of marks begins: linear even in a page of dots. The last kind is a line that
begins with who speaks or what follows (`Anna: …`, `Q: …`)."""
_LAST_WORD = re.compile(r"(?:^|(?<=[\s(\"'“‘]))\S{1,12}$")
_ABBREVIATION = re.compile(
    r"mr|mrs|ms|dr|prof|st|vs|e\.g|i\.e|cf|nos?|approx|fig|vol|pp|inc|ltd|co|z\.b|d\.h|bzw|nr|str|ca|bl\.a|f\.eks|p\.ej"
)


class Span(NamedTuple):
    """A stretch of a text, in characters: `text[start:end]`."""

    start: int
    end: int


def size(text: str) -> int:
    """How much of the embedding model's window a text takes, in words of ordinary English.

    An ideograph or syllable, a run of punctuation and every 12 characters of a longer word count one, as they cost the
    model a token or more; ten characters of anything count one at least, which bounds rulers and padding.
    """
    return max(len(_PIECE.findall(text)), len(text) // _CHARS)


def trim(text: str, start: int, end: int) -> Span:
    """The span without white space at its ends; empty when there is nothing else."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return Span(start, end)


def sentences(text: str, span: Span) -> list[Span]:
    """The sentences of a span, trimmed; where a boundary is in doubt there is none."""
    found, at = [], span.start
    for end in _END.finditer(text, span.start, span.end):
        if end.start() == end.end() or not _doubtful(text, at, end.start(), end.end()):
            found.append(trim(text, at, end.end()))
            at = end.end()
    found.append(trim(text, at, span.end))
    return [one for one in found if one.end > one.start]


def _doubtful(text: str, sentence: int, start: int, end: int) -> bool:
    """Whether the mark at `start` may belong to an abbreviation, an initial or a list number."""
    if text[start] != "." or end - start > 3:
        return False
    if text[end : end + 40].lstrip()[:1].islower():
        return True
    last = _LAST_WORD.search(text, max(sentence, start - 13), start)
    word = last[0].lower() if last else ""
    return (
        bool(_ABBREVIATION.fullmatch(word))
        or (len(word) == 1 and word.isalpha())
        or (word.isdecimal() and len(word) < 3)
    )


def divided(text: str, span: Span, limit: int) -> list[Span]:
    """The span itself, or pieces of at most `limit` words: cut at line ends, else at spaces, else anywhere."""
    if size(text[span.start : span.end]) <= limit:
        return [span]
    pieces, at = [], span.start
    while at < span.end:
        cut = _cut(text, at, span.end, limit)
        pieces.append(trim(text, at, cut))
        at = cut
    return [piece for piece in pieces if piece.end > piece.start]


def _cut(text: str, start: int, end: int, limit: int) -> int:
    pieces = list(islice(_PIECE.finditer(text, start, end), limit + 1))
    furthest = min(end, start + limit * _CHARS)
    if len(pieces) > limit:
        furthest = min(furthest, pieces[limit].start())
    if furthest == end:
        return end
    middle = start + (furthest - start) // 2
    line = text.rfind("\n", middle, furthest)
    if line > start:
        return line
    space = next((at for at in range(furthest, middle, -1) if text[at].isspace()), 0)
    return space or next((at for at in range(furthest, middle, -1) if not _inside(text, at)), furthest)


def _inside(text: str, at: int) -> bool:
    """Whether what is before `at` and after it are drawn as one character: marks, joiners, variants, skin tones."""
    joined = category(text[at]).startswith("M") or text[at] == "\u200d" or "\U0001f3fb" <= text[at] <= "\U0001f3ff"
    return joined or text[at - 1] == "\u200d"
