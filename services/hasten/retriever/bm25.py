"""What a chunk and a question say in which words, as the sparse vectors whose product is BM25; pure.

The store multiplies in how rare a term is, counted among the tenant's own chunks. What is stored of a chunk therefore
never goes out of date, whatever else is written or deleted.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from hasten.terms import terms
from hasten.vectors.store import Terms

VERSION = 1
"""Of how terms are made; chunks with those of another version are made anew."""
K1, B = 1.2, 0.75
AVERAGE = 80
"""Terms of an average chunk. A constant, because a measured one would change with every document, for all tenants."""
MAX_QUESTION_TERMS = 128
"""The codes of a question come first, then its words in order."""
MAX_QUESTION_CHARS = 16_000
"""So much of a question is read, half of it from its end: it is read on the loop that answers the others."""
_KNOWN_CHARS = 64
_JOINT = r"-./:_#+\u2010-\u2015\u2212"
_CODE = re.compile(rf"\w+(?:[{_JOINT}]\w+)*")
_THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])")
_BETWEEN = re.compile(rf"[{_JOINT},]")


def document_terms(text: str) -> Terms:
    """The terms of a chunk, each with what BM25 makes of how often it occurs in a text of this length."""
    counts = Counter(_all(text))
    length = counts.total()
    norm = K1 * (1 - B + B * length / AVERAGE)
    return _sparse({term: count * (K1 + 1) / (count + norm) for term, count in counts.items()})


def question_terms(text: str) -> Terms:
    """The terms of a question, each once."""
    first = dict.fromkeys(_all(_ends(unicodedata.normalize("NFKC", _ends(text)))))
    return _sparse(dict.fromkeys(list(first)[:MAX_QUESTION_TERMS], 1.0))


def _ends(text: str) -> str:
    half = MAX_QUESTION_CHARS // 2
    return text if len(text) <= MAX_QUESTION_CHARS else f"{text[:half]} {text[-half:]}"


def _all(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text)
    return [*codes(plain), *terms(plain)]


def codes(text: str) -> list[str]:
    """Part numbers, versions, dates, addresses and the like as one term each, however they are punctuated and cased.

    `KX-440B`, `kx440b` and `KX.440.B` are one code; its parts are terms as well. Numbers lose their thousands commas.
    """
    found = [one for one in _CODE.findall(text.casefold()) if _telling(one)]
    return [_BETWEEN.sub("", one) for one in [*found, *_THOUSANDS.findall(text)]]


def _telling(one: str) -> bool:
    """A code has a digit, and a letter or punctuation beside it: a plain number is a term already."""
    return any(character.isdigit() for character in one) and not one.isdigit()


def _sparse(weights: dict[str, float]) -> Terms:
    """By numbers of terms; of two terms with one number, which is as good as never, the heavier counts."""
    numbered: dict[int, float] = {}
    for term, weight in weights.items():
        number = _number(term)
        numbered[number] = max(weight, numbered.get(number, 0.0))
    return Terms(_array(sorted(numbered)), np.array([numbered[one] for one in sorted(numbered)], dtype=np.float32))


def _array(numbers: Iterable[int]) -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
    return np.fromiter(numbers, dtype=np.uint32)


def _number(term: str) -> int:
    """The same on every replica and after every start: with 100,000 different terms, one of a question shares its
    number with another in 1 of 40,000 cases. Those of long terms are not remembered, since a term has no limit."""
    return _known_number(term) if len(term) <= _KNOWN_CHARS else _made_number(term)


def _made_number(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=4).digest(), "little")


_known_number = lru_cache(maxsize=1 << 16)(_made_number)
