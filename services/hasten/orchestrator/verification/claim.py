"""Splits an answer into its sentences, and tells which passages each of them cites; pure."""

import re
from collections.abc import Iterator

import msgspec

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_MARK = re.compile(r"\[(\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*)\](?!\()")
_END = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]]*(?=\s)|[。！？]+|\n+")
_SHORT = re.compile(
    r"(?:^|[\s(\"'“])(?:[A-Z]|[A-Za-z](?:\.[A-Za-z])+|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|approx|No|Inc|Ltd|Co|Corp|ca|cf|Gen|Col|Lt"
    r"|Rev|Sgt|Capt|Gov|Sen|Rep|Mt|Fig|Vol|pp|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)\.$"
)
_LIST = re.compile(r"\s*(?:[-*•#>]+|\d{1,3}[.)])\s+")
MOST_CITED = 64
"""Passages that one sentence may cite."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A citation as it stands in the answer, `text[start:end]`, and the numbers in it."""

    start: int
    end: int
    numbers: list[int]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of the answer, `text[start:end]` with its citations; `said` is what it says without them."""

    start: int
    end: int
    said: str
    marks: list[Mark] = []

    @property
    def cites(self) -> list[int]:
        """The numbers of the passages that it cites, each once."""
        return list(dict.fromkeys(number for mark in self.marks for number in mark.numbers))[:MOST_CITED]


def claims(text: str) -> Iterator[Claim]:
    """The sentences of an answer, without its code. A citation behind a full stop belongs to the sentence before."""
    plain = _CODE.sub(lambda code: " " * len(code[0]), text)
    for start, end in spans(plain):
        marks = [
            Mark(start=start + mark.start(), end=start + mark.end(), numbers=_numbers(mark[1]))
            for mark in _MARK.finditer(plain[start:end])
        ]
        said = " ".join(_MARK.sub(" ", plain[start:end]).split()).replace(" .", ".")
        if any(character.isalnum() for character in said):
            yield Claim(start=start, end=end, said=said, marks=marks)


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the sentences of a text stand."""
    start = 0
    for found in _END.finditer(text):
        end = found.end()
        if end <= start or (found[0] == "." and _SHORT.search(text[max(start, end - 12) : end])):
            continue
        while (cited := _MARK.match(text, _skipped(text, end))) is not None and "\n" not in text[end : cited.start()]:
            end = cited.end()
        if trimmed := _trimmed(text, start, end):
            yield trimmed
        start = end
    if trimmed := _trimmed(text, start, len(text)):
        yield trimmed


def _skipped(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t":
        at += 1
    return at


def _trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    if (bullet := _LIST.match(text, start, end)) is not None:
        start = bullet.end()
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return (start, end) if start < end else None


def _numbers(said: str) -> list[int]:
    """The numbers of `1, 2` and `1-3`."""
    found: list[int] = []
    for part in re.split(r"[,;]", said):
        ends = [int(one) for one in re.findall(r"\d+", part)]
        found += range(ends[0], min(ends[-1], ends[0] + MOST_CITED) + 1) if len(ends) > 1 else ends
    return found[:MOST_CITED]
