"""Turns text into terms to match: stems of words, figures as they stand, pairs of unspaced characters; pure."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af"
_WORD = re.compile(rf"\d+(?:[.,:]\d+)*|[{_UNSPACED}]+|[^\W\d_{_UNSPACED}]+")
_FIRST_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_SUFFIX = re.compile(r"(?<=[a-z]{3})(?:ies|ing|ed|es|s|e|ly|y)$")

_KNOWN_CHARS = 24
"""Longer words are not remembered: a run of 180,000 Chinese characters would take 16 MB for good."""

_STOP_WORDS = (
    "a an and are as at be been but by can could do does did for from had has have he her his how i if in into is it "
    "its me my of on or our she should so some than that the their them then there these they this to up us was we "
    "were what when where which who whom whose why will with would you your am about also any all"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that say nothing of what a sentence is about. Negations, figures and names are never among them."""


def words(text: str) -> list[str]:
    """The words, figures and runs of unspaced characters of a text in order, in lower case."""
    return _WORD.findall(text.lower())


def terms(text: str) -> list[str]:
    """The terms of a text in order; stop words are left out unless nothing else is left."""
    found = words(text)
    telling = [word for word in found if word not in STOP_WORDS] or found
    return [term for word in telling for term in _parts(word)]


def _parts(word: str) -> Sequence[str]:
    return _known_parts(word) if len(word) <= _KNOWN_CHARS else _made_parts(word)


def _made_parts(word: str) -> Sequence[str]:
    if _FIRST_UNSPACED.match(word):
        return [word[at : at + 2] for at in range(max(1, len(word) - 1))]
    return (_SUFFIX.sub("", word),)


_known_parts = lru_cache(maxsize=1 << 16)(_made_parts)


def weights(query: Iterable[str], documents: Sequence[frozenset[str]]) -> dict[str, float]:
    """How much each term of the query tells about a document: BM25's inverse document frequency over `documents`.

    `log(1 + (N - n + 0.5) / (n + 0.5))` as in Lucene, which is never negative. Terms that occur nowhere are left out.
    """
    wanted = set(query)
    counts: dict[str, int] = {}
    for document in documents:
        for term in wanted & document:
            counts[term] = counts.get(term, 0) + 1
    total = len(documents)
    return {term: math.log(1 + (total - n + 0.5) / (n + 0.5)) for term, n in counts.items()}


def overlap(document: frozenset[str], query: Mapping[str, float]) -> float:
    """The weight of the query's terms that the document holds."""
    return math.fsum(query[term] for term in query.keys() & document)
