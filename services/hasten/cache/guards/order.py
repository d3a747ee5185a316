"""Who does what to whom: the same words in other places of a sentence make another question."""

from itertools import pairwise

import msgspec

from hasten.cache.guards.names import is_name
from hasten.cache.guards.reading import Reading
from hasten.cache.guards.tokens import Word
from hasten.cache.guards.wording import words

_PLACE, _TOPIC, _MEANS, _SOURCE, _GOAL = "place", "topic", "means", "source", "goal"
_SIDES: dict[str, set[str]] = {
    "from": {_SOURCE}, "off": {_SOURCE}, "out": {_SOURCE}, "to": {_GOAL}, "into": {_GOAL}, "onto": {_GOAL},
    "for": {_GOAL, _TOPIC, _PLACE}, "of": {_TOPIC, _PLACE, _SOURCE}, "in": {_PLACE, _TOPIC, _MEANS},
    "on": {_PLACE, _TOPIC}, "at": {_PLACE, _TOPIC}, "about": {_TOPIC}, "near": {"near"}, "with": {_MEANS},
    "by": {_MEANS}, "via": {_MEANS}, "through": {_MEANS}, "between": {_SOURCE, _GOAL}, "than": {"than"}, "as": {"as"},
    "before": {"before"}, "until": {"before"}, "after": {"after"}, "since": {"after"}, "over": {"over"},
    "above": {"over"}, "under": {"under"}, "below": {"under"}, "during": {_PLACE}, "within": {_PLACE},
    "without": {"without"}, "around": {"near"}, "against": {"against"}, "inside": {_PLACE}, "outside": {"outside"},
}  # fmt: skip
"""Which roles a preposition can give to what follows it; two that share none are not the same place."""
_BREAKS = words("is are am was were do does did can could will would shall should may might must i you we")
_OBJECTS = words("me us him them")
"""Pronouns whose place matters like that of a noun: `call Bob for me`, `call me Bob`."""
_SYMMETRIC = words("between and or vs versus difference compare comparison both")


_PARTICIPLES = words("hit hurt cut set let read beat")
"""Participles not in -ed that are the same word as their verb."""
_VERB_AND_TWO_NOUNS = 3


class _Place(msgspec.Struct, frozen=True):
    """Where a word stands: its position, the roles that its preposition gives it (none without one), whether it is
    written straight before another noun, and whether it is a name."""

    at: int
    roles: frozenset[str]
    compound: bool
    name: bool


def differs(left: Reading, right: Reading) -> bool:
    """Whether a word plays another role, or words have changed places without a preposition that keeps their role."""
    ours, theirs = _places(left), _places(right)
    shared = ours.keys() & theirs.keys()
    if _passive(left) != _passive(right) and len(shared) >= _VERB_AND_TWO_NOUNS:
        return True
    if any(_conflict(ours[word], theirs[word]) for word in shared) or _swapped(shared, ours, theirs):
        return True
    fixed = [word for word in shared if not _movable(ours[word], theirs[word])]
    if _order(fixed, ours) != _order(fixed, theirs):
        return True
    named = [word for word in shared if ours[word].name and ours[word].roles != theirs[word].roles]
    return not _symmetric(left, right) and _order(named, ours) != _order(named, theirs)


def names_differ(left: Reading, right: Reading) -> bool:
    """Like `differs`, of names alone: what two tellings of one matter keep, whatever else they move about."""
    ours, theirs = _places(left), _places(right)
    shared = [word for word in ours.keys() & theirs.keys() if ours[word].name and theirs[word].name]
    if any(_conflict(ours[word], theirs[word]) for word in shared) or _swapped(set(shared), ours, theirs):
        return True
    return (
        not _symmetric(left, right)
        and _passive(left) == _passive(right)
        and _order(shared, ours) != _order(shared, theirs)
    )


def _order(words: list[str], places: dict[str, _Place]) -> list[str]:
    return sorted(words, key=lambda word: places[word].at)


def _swapped(shared: set[str], ours: dict[str, _Place], theirs: dict[str, _Place]) -> bool:
    """Whether one word has taken the role of another that now has none (`liable for a child`, `for a parent`)."""
    gained = [theirs[word].roles for word in shared if not ours[word].roles and theirs[word].roles]
    lost = [ours[word].roles for word in shared if ours[word].roles and not theirs[word].roles]
    return any(roles in lost for roles in gained)


def _passive(reading: Reading) -> bool:
    lowers = [word.lower for word in reading.words]
    return any(by == "by" and (verb.endswith("ed") or verb in _PARTICIPLES) for verb, by in pairwise(lowers))


def _conflict(one: _Place, other: _Place) -> bool:
    return bool(one.roles and other.roles and not one.roles & other.roles)


def _movable(one: _Place, other: _Place) -> bool:
    """Whether the word keeps its role wherever it stands: it takes its preposition with it, or it is in front of its
    noun on one side and behind `of` or `for` on the other (`the guest password`, `the password for guests`)."""
    if one.roles and other.roles:
        return True
    bare, behind = (one, other) if not one.roles else (other, one)
    return _TOPIC in behind.roles and bare.compound


def _places(reading: Reading) -> dict[str, _Place]:
    made: dict[str, _Place] = {}
    roles: frozenset[str] = frozenset()
    for at, word in enumerate(reading.words):
        if word.kind == "mark" or word.lower in _BREAKS:
            roles = frozenset()
        elif word.lower in _SIDES and not word.shouted:
            roles = frozenset(_SIDES[word.lower])
        stem = reading.meaningful.get(at) or (
            word.lower if word.lower in _OBJECTS or _letter(reading.words, at) else None
        )
        if stem is not None and word.raw:
            compound = at + 1 in reading.meaningful and word.lower not in _OBJECTS
            made.setdefault(stem, _Place(at, roles, compound, is_name(word)))
    return made


def _letter(words: list[Word], at: int) -> bool:
    """Whether an `a` names something (`choose A over B`, `a > b`) and is not the article."""
    word, beside = words[at], [*words[max(at - 1, 0) : at], *words[at + 1 : at + 2]]
    if word.raw == "A" and not word.first:
        return True
    return word.lower == "a" and any(near.kind == "literal" and not any(map(str.isalnum, near.raw)) for near in beside)


def _symmetric(left: Reading, right: Reading) -> bool:
    return any(word.lower in _SYMMETRIC for reading in (left, right) for word in reading.words)
