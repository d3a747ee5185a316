"""Names, codes and literals: what is written with capitals, digits, quotes or slashes must be on both sides."""

from hasten.cache.guards.lexicon import CAPITALISED
from hasten.cache.guards.reading import Reading
from hasten.cache.guards.stems import stem
from hasten.cache.guards.tokens import Word
from hasten.cache.guards.wording import NEUTRAL


def differ(left: Reading, right: Reading) -> bool:
    """Whether a name, code or literal of one text is not in the other, or codes or literals have changed places."""
    if _exact(left, "code") != _exact(right, "code") or _exact(left, "literal") != _exact(right, "literal"):
        return True
    if _capitals(left) != _capitals(right) or _shouted(left) != _shouted(right):
        return True
    return not (_all_in(left, right) and _all_in(right, left))


def conflict(left: Reading, right: Reading) -> bool:
    """Whether each side has a name, code or literal that the other has not."""
    return bool(_own(left, right)) and bool(_own(right, left))


def _own(left: Reading, right: Reading) -> list[str]:
    exact = [word for kind in ("code", "literal") for word in _exact(left, kind) if word not in _exact(right, kind)]
    return exact + [name for name in names(left) if name not in right.lowers and stem(name) not in right.lowers]


def _exact(reading: Reading, kind: str) -> list[str]:
    """In their order: `x < 3 > y` is not `x > 3 < y`, and E12 before E13 is not E13 before E12."""
    return [word.lower if kind == "code" else word.raw for word in reading.plain if word.kind == kind]


def _capitals(reading: Reading) -> frozenset[str]:
    return CAPITALISED.intersection(names(reading))


def _shouted(reading: Reading) -> frozenset[str]:
    """Abbreviations that in small letters are words of grammar: US, IT, WHO."""
    return frozenset(word.lower for word in reading.words if word.shouted and word.lower in NEUTRAL)


def _all_in(left: Reading, right: Reading) -> bool:
    return all(name in right.lowers or stem(name) in right.lowers for name in names(left))


def names(reading: Reading) -> list[str]:
    """The names in lower case, in order: capitals inside a sentence, in the middle of a word, or throughout."""
    return [word.lower for word in reading.words if is_name(word)]


def is_name(word: Word) -> bool:
    """Whether a word is written like a name; a capital that begins a sentence says nothing."""
    if word.kind != "word" or word.raw == "I":
        return False
    return word.shouted or any(map(str.isupper, word.raw[1:])) or (word.raw[:1].isupper() and not word.first)
