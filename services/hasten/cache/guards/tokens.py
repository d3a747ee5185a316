"""Cuts a text into words, numbers, codes, literals and marks, in one pass whose time is linear in its length."""

import re
import unicodedata
from typing import Literal

import msgspec

Kind = Literal["word", "number", "code", "literal", "mark"]
_TOKEN = re.compile(
    r"""(?P<fence>`+[^`]*`+)
    |(?P<link>\b(?:https?|ftp)://\S+|[\w.+-]{1,64}@[\w.-]+\w)
    |(?P<path>(?<![\w/])(?:[A-Za-z]:\\|~?\.{0,2}/)[\w./\\-]+)
    |(?P<quoted>"[^"\n]{1,200}"|“[^”\n]{1,200}”|«[^»\n]{1,200}»|(?<!\w)'[^'\n]{1,200}'(?!\w))
    |(?P<date>(?<!\w)(?:\d{4}-\d\d?-\d\d?|\d{1,4}/\d\d?(?:/\d{1,4})?)(?![\d/]))
    |(?P<flag>(?<!\S)--?[^\W\d_][\w-]*)
    |(?P<clock>\d{1,2}(?:[:.]\d{2})?\s?(?:am|pm)\b|\d{1,2}:\d{2}\b)
    |(?P<number>(?:(?<=\s)[-−])?[$£€¥]?\d+(?:[.,\u00a0]\d+)*(?:\s?%|(?:st|nd|rd|th)\b|(?=[a-z]{1,2}\b|\W|_|$)))
    |(?P<code>[^\W_]*\d[^\W_]*(?:[-_/\#.]\w+)*)
    |(?P<word>[^\W\d_]+(?:'[^\W\d_]+)*'?)
    |(?P<operator>(?:[<>=+*^|~%]|[!-](?=[<>=])|(?<!\S)!(?=[^\W\d_])|(?<=\b\w\s)&(?=\s\w\b)|(?<=<)-|&&|(?<=[\d)])/|(?<=[\d)]\s)/|(?<=\s\w\s)/(?=\s)|/(?=\s?[\d(])|(?<=[^\W\d_])\#(?!\w))+)
    |(?P<mark>[.,;:!?()\n…—–])
    |(?P<symbol>[^\w\s\x00-\x7f])""",
    re.VERBOSE | re.IGNORECASE,
)
_KINDS: dict[str, Kind] = {"clock": "number", "number": "number", "code": "code", "word": "word", "mark": "mark"}
_SYMBOLS = frozenset({"So", "Sm"})
"""Unicode's categories of emoji and signs, and of mathematical symbols."""
_IDLE = frozenset("°®©")
_ENDS = frozenset(".!?\n:…")
_PREFIXED = re.compile(r"[^\W\d_]+[-_#/][\w.-]*\d[\w.-]*")
_FLAG = re.compile(r"((?<!\S)--?[^\W\d_][\w-]*)")
_DIVIDED = re.compile(r"(?<=\d)[ ]/[ ](?=\d)")
_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class Word(msgspec.Struct, frozen=True):
    """One token: as written, in lower case, and whether it begins a sentence (where a capital means nothing)."""

    raw: str
    lower: str
    kind: Kind
    first: bool = False

    @property
    def shouted(self) -> bool:
        """Whether it is a code or an abbreviation in capitals."""
        return len(self.raw) > 1 and self.raw.isupper()


def tokens(text: str) -> list[Word]:
    """The tokens of a text; Chinese, Japanese and Korean ones are single characters."""
    text = unicodedata.normalize("NFKC", text).replace("’", "'")
    if _loud(text):
        text = "".join(part if _FLAG.match(part) else part.lower() for part in _FLAG.split(text))
    text = _DIVIDED.sub("/", text)
    made, first, at = [], True, 0
    while found := (_PREFIXED.match(text, at) or _TOKEN.search(text, at)):
        at = found.end()
        if found.lastgroup == "symbol" and (found[0] in _IDLE or unicodedata.category(found[0]) not in _SYMBOLS):
            continue
        kind = _KINDS.get(found.lastgroup or "code", "literal")
        made += _words(found[0], kind, first)
        if found.lastgroup not in ("operator", "symbol"):
            first = kind == "mark" and found[0] in _ENDS
    return made


def _words(raw: str, kind: Kind, first: bool) -> list[Word]:
    if kind == "word" and _HAN.search(raw):
        return [Word(letter, letter, "word") for letter in raw]
    if kind == "number" and len(raw) > 1 and raw[0] == "0" and raw.isdigit():
        kind = "code"
    return [Word(raw, raw.lower(), kind, first)]


def _loud(text: str) -> bool:
    """Whether somebody writes everything in capitals, so that they say nothing."""
    letters = [letter for letter in text[:2000] if letter.isalpha()]
    return len(letters) > 12 and sum(map(str.isupper, letters)) > 0.7 * len(letters)
