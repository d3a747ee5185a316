"""How far two questions are worded alike: whether one is the other with a word changed, or the same told anew."""

from collections import Counter
from functools import lru_cache

from hasten.cache.guards.reading import Reading
from hasten.cache.guards.tokens import Word

NEAR = 0.34
"""The share of changed words up to which one text is the other with something exchanged, added or left out."""
LONG = 12
"""Words beyond which a text tells more than it asks."""
_ALIGNED = 64
"""Words up to which their order counts; aligning takes time that grows with the square of their number."""


@lru_cache(maxsize=64)
def changed(left: Reading, right: Reading) -> float:
    """The share of the longer text's words that are not in the other in the same order, from 0 to 1; symmetric.

    Several guards ask for it in a row.
    """
    ours, theirs = _lowers(left.words), _lowers(right.words)
    longest = max(len(ours), len(theirs))
    if longest == 0:
        return 0.0
    if longest > _ALIGNED:
        return 1 - sum((Counter(ours) & Counter(theirs)).values()) / longest
    return 1 - _common(ours, theirs) / longest


def near(left: Reading, right: Reading) -> bool:
    """Whether one is the other with something exchanged, added, left out; in a longer text clauses may have
    changed places besides."""
    if changed(left, right) <= NEAR:
        return True
    ours, theirs = _lowers(left.words), _lowers(right.words)
    longest = max(len(ours), len(theirs))
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return longest > LONG and 1 - shared / longest <= NEAR


def retold(left: Reading, right: Reading) -> bool:
    """Whether these are two tellings of a longer story, in which what one mentions by the way the other may leave out:
    one of them has more than LONG words, and they are not `near`."""
    longest = max(len(_lowers(left.plain)), len(_lowers(right.plain)))
    return longest > LONG and not near(left, right)


def _lowers(words: list[Word]) -> list[str]:
    return [word.lower for word in words if word.kind != "mark"]


def _common(one: list[str], other: list[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(other) + 1)
    for word in one:
        before = 0
        for at, theirs in enumerate(other, 1):
            above = row[at]
            row[at] = before + 1 if word == theirs else max(above, row[at - 1])
            before = above
    return row[-1]
