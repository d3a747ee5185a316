"""What a sentence says, as far as words show it: its terms, figures, names, and what it denies; pure."""

import re
from collections import deque

import msgspec

from hasten.terms import STOP_WORDS, terms

_WORD = re.compile(r"\d+(?:[.,:/]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*")
_DENIALS = "not no never none nobody nothing neither nor cannot without hardly unable fails failed lack lacks"
_DENIES = frozenset(_DENIALS.split())
_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_COUNTS = {word: str(number) for number, word in enumerate(_NUMBERS.split())} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "seventy": "70",
    "eighty": "80",
    "ninety": "90",
}
_PLACES = "first second third fourth fifth sixth seventh eighth ninth tenth"
_ORDINALS = {word: str(number) for number, word in enumerate(_PLACES.split(), 1)}
_VAGUE = frozenset({"one", "zero"})
REACH = 4
"""Words after a denial that it may deny."""
_PAIRS = (
    "increase decrease|increases decreases|increased decreased|more less|more fewer|before after|open closed"
    "|allowed forbidden|always never|earliest latest|north south|east west|northern southern|eastern western"
    "|true false|above below|with without|largest smallest|highest lowest|most least|includes excludes"
    "|won lost|wins loses|accepted rejected|minimum maximum|free paid|enabled disabled|best worst|older younger"
    "|oldest youngest|longest shortest|longer shorter|higher lower|larger smaller|born died|male female"
    "|started ended|begins ends|began ended|rise fall|rises falls|rose fell|legal illegal|possible impossible"
)
OPPOSITES = {word: other for pair in _PAIRS.split("|") for word, other in (pair.split(), pair.split()[::-1])}
"""Words of which a source that says the other one does not say this one."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """`terms` without stop words, `figures` in digits, `names` in lower case; `denied` terms stand behind a denial."""

    terms: frozenset[str]
    figures: frozenset[str]
    names: frozenset[str]
    denied: frozenset[str]
    words: frozenset[str]


def reading(text: str) -> Reading:
    """Reads one sentence."""
    found = [(match[0], match.start()) for match in _WORD.finditer(text)]
    lower = [word.lower().replace("’", "'") for word, _ in found]
    return Reading(
        terms=frozenset(
            term for word in lower if word not in STOP_WORDS and word not in _DENIES for term in terms(word)
        ),
        figures=frozenset(figure for word in lower if (figure := _figure(word))),
        names=frozenset(_names(found, text)),
        denied=_denied(lower),
        words=frozenset(lower),
    )


def _figure(word: str) -> str:
    if word[0].isdigit():
        plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", word)
        return plain.lstrip("0") or "0"
    return _COUNTS.get(word, "") or _ORDINALS.get(word, "")


def demanded(claim: Reading) -> frozenset[str]:
    """The figures that a source has to say: `one` counts nothing as often as not."""
    vague = {figure for word in claim.words & (_VAGUE | _ORDINALS.keys()) if (figure := _figure(word))}
    said = {word for word in claim.words if word[0].isdigit()}
    return claim.figures - {figure for figure in vague if figure not in {_figure(word) for word in said}}


def _names(found: list[tuple[str, int]], text: str) -> list[str]:
    """Words with a capital; the first one of the sentence only before another."""
    capital = [word[0].isupper() for word, _ in found]
    names: list[str] = []
    for at, (word, start) in enumerate(found):
        first = at == 0 or text[max(0, start - 3) : start].rstrip()[-1:] in (":", '"', "“")
        alone = first and not (at + 1 < len(found) and capital[at + 1]) and not word[1:].isupper()
        lower = word.lower().replace("’", "'").removesuffix("'s")
        if capital[at] and not alone and lower not in STOP_WORDS and len(word) > 1:
            names.append(lower)
    return names


def _denied(lower: list[str]) -> frozenset[str]:
    denied: set[str] = set()
    behind: deque[str] = deque(maxlen=REACH)
    for at in range(len(lower) - 1, -1, -1):
        word = lower[at]
        if (word in _DENIES or word.endswith("n't")) and lower[at + 1 : at + 2] != ["only"]:
            denied.update(term for one in behind for term in terms(one))
        if word not in STOP_WORDS:
            behind.appendleft(word)
    return frozenset(denied)
