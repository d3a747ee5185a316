"""What one text asks for and the other does not: instructions to whoever answers, and words that narrow or widen."""

from itertools import pairwise

from hasten.cache.guards.content import left_over
from hasten.cache.guards.likeness import NEAR, changed
from hasten.cache.guards.reading import Reading
from hasten.cache.guards.stems import stem
from hasten.cache.guards.wording import words


def _stems(text: str) -> frozenset[str]:
    return frozenset(map(stem, text.split()))


_INSTRUCTING = _stems(
    """
    ignore disregard forget pretend respond reply answer instruction instructions prompt system sentence sentences
    word words paragraph paragraphs bullet bullets list table json yaml csv markdown html html5 format briefly brief
    detail details detailed concise short summary summarise summarize translate translation poem story rhyme essay
    joke tone style formal informal simple simply layman eli5 step-by-step example examples diagram chart always
    never tell say write explain describe
    """
)
"""Words that say how to answer, by which two otherwise equal questions get different answers."""
_COUNTING = _stems(
    """
    only all some every each both either neither most few fewer none several many any just even except unless
    always sometimes usually often rarely
    """
)
"""Words that narrow or widen a question when they are added to it or exchanged in it."""
_PLACING = _stems(
    """
    still yet again alone together separately or and another other else off out up down over under back after before
    until since without within between behind beyond during inside outside against above below around across first
    last next previous twice instead
    """
)
"""The same, but only in a sentence that is otherwise worded alike: other words bring others of these with them."""
_OVERRIDING = words("ignore disregard pretend respond instruction instructions prompt")
_EVER, _SAYING = words("always never"), words("tell say answer reply respond recommend mention write add end begin")
_CLAUSE = 2


def differs(left: Reading, right: Reading) -> bool:
    """Whether one text adds a clause to the other, an instruction, or a word that narrows it."""
    ours, theirs = left_over(left, right)
    if bool(ours) != bool(theirs) and len(ours or theirs) >= _CLAUSE:
        return True
    if overrides(left) != overrides(right) or _among(_INSTRUCTING, ours) != _among(_INSTRUCTING, theirs):
        return True
    counting = _among(_COUNTING, ours) != _among(_COUNTING, theirs)
    return counting or (changed(left, right) <= NEAR and _among(_PLACING, ours) != _among(_PLACING, theirs))


def overrides(reading: Reading) -> frozenset[str]:
    """The words by which a text commands whoever answers: `ignore`, `always tell …`."""
    lowers = [word.lower for word in reading.words]
    said = {verb for ever, verb in pairwise(lowers) if ever in _EVER and verb in _SAYING}
    return frozenset(said.union(_OVERRIDING.intersection(lowers)))


def _among(known: frozenset[str], lowers: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(stem, lowers)) & known
