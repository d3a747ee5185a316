"""Everything else: each word that carries a meaning must have its like on the other side, give or take a slip of the
keyboard. What is left over on one side is a clause of its own, what is left over on both is other words."""

from functools import lru_cache

from hasten.cache.guards.lexicon import CONFUSABLE
from hasten.cache.guards.names import is_name
from hasten.cache.guards.reading import Reading
from hasten.cache.guards.tokens import Word

_SHORTEST_SWAP = 5
_SHORTEST_SLIP = 6


@lru_cache(maxsize=64)
def left_over(left: Reading, right: Reading) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of each, in lower case, that have no counterpart in the other; several guards ask for them in a row."""
    ours, theirs = _only(left, right), _only(right, left)
    for one in list(ours):
        for other in theirs:
            if _misspelt(one, other):
                ours.remove(one)
                theirs.remove(other)
                break
    mine, yours = tuple(word.lower for word in ours), tuple(word.lower for word in theirs)
    return ((), ()) if mine and "".join(mine) == "".join(yours) else (mine, yours)


def _only(left: Reading, right: Reading) -> list[Word]:
    return [word for stem, word in left.content.items() if stem not in right.content]


def _misspelt(one: Word, other: Word) -> bool:
    return not is_name(one) and not is_name(other) and slip(one.lower, other.lower)


def slip(one: str, other: str) -> bool:
    """Whether one is the other with two neighbours swapped, or with one letter inside left out.

    A letter exchanged for another is no slip: it makes other words (employer, employee) as often as misspelt ones.
    """
    if frozenset((one, other)) in CONFUSABLE or one[:1] != other[:1]:
        return False
    if len(one) == len(other):
        return len(one) >= _SHORTEST_SWAP and _swapped(one, other)
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    if len(longer) - len(shorter) != 1 or len(shorter) < _SHORTEST_SLIP:
        return False
    return any(longer[:at] + longer[at + 1 :] == shorter for at in range(1, len(longer) - 1))


def _swapped(one: str, other: str) -> bool:
    places = [at for at in range(len(one)) if one[at] != other[at]]
    if len(places) != 2 or places[1] != places[0] + 1:
        return False
    first, second = places
    return one[first] == other[second] and one[second] == other[first]
