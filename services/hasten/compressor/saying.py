"""Tells whether two units say the same: near-duplicates of each other may differ only in what changes no meaning."""

import re

_PIECE = re.compile(r"\w+(?:['’]\w+)*|(?<!\w)[-−](?=\w)|[^\w\s.,;:!?'\"“”‘’()*_#`|•-]")
_NOT = re.compile(r"(?<=\w)n['’]t$")
_IRREGULAR = {"can't": "can not", "can’t": "can not", "won't": "will not", "won’t": "will not", "cannot": "can not"}
_UNITS = {"percent": "%", "per cent": "%", "kilometres": "km", "kilometers": "km", "kilograms": "kg", "euros": "€"}
_UNIT = re.compile(r"(?<=\d) ?\b(per cent|percent|kilometres|kilometers|kilograms|euros)\b")
_WORDS = "a an the also however moreover furthermore additionally therefore thus indeed please"
_FILLERS = frozenset(_WORDS.split())


def saying(text: str) -> tuple[str, ...]:
    """What two units must have in common to be near-duplicates: their words, figures and signs, in order.

    Left out are case, punctuation, emphasis, articles and words that only join sentences; contractions and a few
    units after a figure are written one way. Every figure, sign, name, negation and other word counts, whatever
    it is: "increased" is as like "decreased" as a word can be, so no likeness of words is trusted.
    """
    plain = _UNIT.sub(lambda found: f" {_UNITS[found[1]]}", text.lower())
    return tuple(
        part
        for piece in _PIECE.findall(plain)
        for part in _NOT.sub(" not", _IRREGULAR.get(piece, piece)).split()
        if part not in _FILLERS
    )
