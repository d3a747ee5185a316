"""What a word is: one for people, for doing, for a thing or a quality, or idle; by its stem.

The lists of people and of doing beside this file were made of WordNet by `loadtest.word_classes`.
"""

from functools import cache
from importlib import resources
from typing import Literal

from hasten.cache.guards.stems import stem
from hasten.cache.guards.wording import words

Class = Literal["person", "doing", "thing", "idle"]
_PEOPLE = words(
    """
    person people someone somebody anyone anybody everyone resident residents tenant team staff crew family self
    employed employee employees customer client guest kid kids folks partner agent nonprofit nonprofits pensioner
    """
)
_IDLE = words(
    """
    get way thing things process step steps procedure option kind type something also too still already else ever
    back right up out off over down possible available able much many long open close book reserve order request
    copy place time answer question help info information
    """
)
"""Words of which one more or less changes little."""


def kind(word: str) -> Class:
    """The class of a lower-case word; what is in no list is a thing."""
    made = stem(word)
    if word in _IDLE or made in _stems(_IDLE):
        return "idle"
    if made in _stems(_PEOPLE) or made in _listed("persons"):
        return "person"
    return "doing" if made in _listed("verbs") else "thing"


@cache
def _stems(known: frozenset[str]) -> frozenset[str]:
    return frozenset(map(stem, known))


@cache
def _listed(name: str) -> frozenset[str]:
    text = resources.files("hasten.cache.guards").joinpath(f"{name}.txt").read_text()
    return frozenset(map(stem, text.split()))
