"""The same sentence with another thing in it: what stands in one frame is compared word by word."""

from hasten.cache.guards.classes import kind
from hasten.cache.guards.content import left_over
from hasten.cache.guards.language import english
from hasten.cache.guards.likeness import near
from hasten.cache.guards.reading import Reading

_NAMED = frozenset({"thing", "person"})


def differs(left: Reading, right: Reading) -> bool:
    """Whether one text is the other about somebody else, or with a thing or quality exchanged for another; where the
    lists do not know the language, whether any word is left over."""
    ours, theirs = left_over(left, right)
    if not ours and not theirs:
        return False
    if not (english(left) and english(right)):
        return True
    if not near(left, right):
        return False
    one, other = {kind(word) for word in ours}, {kind(word) for word in theirs}
    return "person" in one | other or bool(one & _NAMED and other & _NAMED)
