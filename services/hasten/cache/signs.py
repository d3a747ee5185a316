"""What tells whether two questions that no guard forbids are the same: a few figures about their wording; pure."""

import msgspec

from hasten.cache.guards import Reading, content, likeness, polarity, question
from hasten.cache.guards.classes import kind
from hasten.cache.guards.stems import stem

_ASPECTS = {
    stem(word): aspect
    for aspect, listed in {
        "cause": "cause reason trigger why lead",
        "cure": "treat treatment cure heal remedy therapy manage management relieve alleviate fix repair resolve solve",
        "prevent": "prevent prevention avoid",
        "signs": "symptom sign indicate",
        "check": "test diagnose diagnosis detect check investigate screen",
        "meaning": "mean meaning definition define description describe",
        "risk": "risk danger safe safety harm harmful dangerous",
        "price": "price cost fee charge afford",
        "time": "duration deadline when",
        "spread": "spread transmit contagious",
        "other": "other else besides apart another alternative",
    }.items()
    for word in listed.split()
}
"""What about a thing is asked, by stem."""


class Signs(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between two questions, each 0 when there is none.

    `near` is 1 when one is the other with something exchanged, added or left out; then `things` are the words for
    things and qualities that only one side has: the more, the likelier that they were put there on purpose. `whether`
    is 1 when one asks how and the other when, and so on. `aspect` is 1 when one speaks of something about the matter
    (its cause, its price) that the other does not, 2 when each does. `denial` is 1 when a negation is on one side only,
    and `alike` when no word is left over.
    """

    near: float = 0.0
    things: float = 0.0
    whether: float = 0.0
    aspect: float = 0.0
    denial: float = 0.0
    alike: float = 0.0


def signs(left: Reading, right: Reading) -> Signs:
    """The signs of two questions; the same either way round."""
    ours, theirs = content.left_over(left, right)
    rest = [*ours, *theirs]
    near = bool(rest) and likeness.near(left, right)
    things = sum(kind(word) == "thing" for word in rest) if near else 0
    return Signs(
        near=float(near),
        things=float(things),
        whether=float(_asks_otherwise(left, right)),
        aspect=_aspect(left, right),
        denial=float(polarity.negation_differs(left, right)),
        alike=float(not rest),
    )


def _asks_otherwise(left: Reading, right: Reading) -> bool:
    ours, theirs = _kinds(left), _kinds(right)
    return bool(ours and theirs and not ours & theirs) or _tells(left) != _tells(right)


def _kinds(reading: Reading) -> set[str]:
    return {asked.split()[0] for asked in question.asks(reading) if asked}


def _tells(reading: Reading) -> bool:
    """Whether it is a statement of several sentences that asks nothing."""
    marks = [word.lower for word in reading.words if word.kind == "mark"]
    return marks.count(".") > 1 and "?" not in marks and not _kinds(reading)


def _aspect(left: Reading, right: Reading) -> float:
    ours, theirs = _aspects(left), _aspects(right)
    return float(ours != theirs) + float(bool(ours - theirs) and bool(theirs - ours))


def _aspects(reading: Reading) -> set[str]:
    return {_ASPECTS[made] for word in reading.words if (made := stem(word.lower)) in _ASPECTS}
