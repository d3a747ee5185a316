"""Negation and opposites: what is denied in one text and not in the other, and words that turn a question round."""

from hasten.cache.guards.lexicon import OPPOSITES, PREFIXES
from hasten.cache.guards.reading import Reading, canonical
from hasten.cache.guards.wording import NEUTRAL, words

NEGATORS = words(
    """
    not no never none nobody nothing neither nor nowhere without cannot forbid forbidden prohibit prohibited ban
    banned disallow disallowed unable impossible deny denied refuse avoid prevent except unless exclude excluding
    excluded lack missing fail failed hardly barely stop non isn't
    """
)

_EMPHASISED = frozenset({"not", "never", "without"})


def negated(reading: Reading) -> list[str]:
    """For each negation the stem of the word after it that carries a meaning, sorted."""
    words = reading.words
    made = []
    for at, word in enumerate(words):
        if word.kind == "word" and word.lower in NEGATORS and (not word.shouted or word.lower in _EMPHASISED):
            following = (
                later.lower for later in words[at + 1 :] if later.kind != "mark" and later.lower not in NEUTRAL
            )
            made.append(canonical(next(following, "")))
    return sorted(made)


def negation_differs(left: Reading, right: Reading) -> bool:
    """Whether one denies what the other does not."""
    return negated(left) != negated(right)


def opposed(left: Reading, right: Reading) -> bool:
    """Whether a word of one is the opposite of a word of the other that it has not itself."""
    ours, theirs = left.content.keys() - right.content.keys(), right.content.keys() - left.content.keys()
    return any(_opposites(one, other) for one in ours for other in theirs)


def _opposites(one: str, other: str) -> bool:
    if frozenset((one, other)) in OPPOSITES:
        return True
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return longer.endswith(shorter) and longer.removesuffix(shorter) in PREFIXES
