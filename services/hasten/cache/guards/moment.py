"""Questions that have an answer for one person or one moment only: these are never answered by their meaning."""

from itertools import pairwise

from hasten.cache.guards.likeness import LONG
from hasten.cache.guards.reading import Reading
from hasten.cache.guards.tokens import Word
from hasten.cache.guards.wording import words

PASSING = words(
    """
    today tonight tomorrow yesterday currently latest newest recent recently nowadays upcoming weather
    forecast news owe owed
    """
)
"""Words whose meaning is gone tomorrow."""
ASKING = words("today tonight tomorrow latest newest upcoming weather forecast")
"""Those of them that do not date what has happened, but say what is asked for."""
PASSING_PHRASES = ("this week", "this month", "this year", "this morning", "this evening", "next week", "next month",
    "last week", "last month", "last night", "right now", "at the moment", "so far", "as of", "up to date")  # fmt: skip
OWN_STATE = words(
    """
    balance statement bill order parcel package shipment refund payment transaction invoice appointment booking
    reservation claim application delivery salary payslip score usage points quota debt tariff premium
    invoices orders payments transactions bookings appointments claims
    """
)
"""What a question about `my …` asks the records of one person for."""

_MINE = frozenset({"my", "our", "mine", "ours"})
_SELF = frozenset({"i", "we"})
_HELPING = words("is are was were am has have had did do does will when where what how much many")
_GENERAL = (["how", "do", "i"], ["can"], ["must"], ["should"])
_ADVICE = ("how do i", "what should i do", "what can i do", "where can i", "where do i", "must i", "am i entitled")
_REACH = 4
_BELONGS = (["of"], ["on"], ["in"])
_ENDS = frozenset(".!?\n")


def passing(reading: Reading) -> bool:
    """Whether the text speaks of now (`today`, `latest`), or of what is recorded of the asker (`where is my order`).

    A longer text tells what happened before it asks: there the words that date what is told do not count.
    """
    lowers = [word.lower for word in reading.words]
    if sum(word.kind != "mark" for word in reading.plain) > LONG:
        asked = [word.lower for word in _asked(reading.words)]
        return bool(ASKING & set(asked)) or (_speaks_of_own(lowers) and not _general(asked))
    if (
        PASSING & set(lowers)
        or _now(lowers)
        or any(f" {phrase} " in f" {' '.join(lowers)} " for phrase in PASSING_PHRASES)
    ):
        return True
    return _asks_of_self(lowers) or (_speaks_of_own(lowers) and not _general(lowers))


def _asked(told: list[Word]) -> list[Word]:
    """The sentences that end with a question mark, or all when there is none."""
    made: list[Word] = []
    sentence: list[Word] = []
    for word in told:
        sentence.append(word)
        if word.kind == "mark" and word.lower in _ENDS:
            made += sentence if word.lower == "?" else []
            sentence = []
    return made or told


def _now(lowers: list[str]) -> bool:
    """Whether it ends with `now` (`are you open now?`); elsewhere the word only leads on (`now I wonder …`)."""
    return any(lower == "now" and not after.isalpha() for lower, after in pairwise([*lowers, "."]))


def _general(lowers: list[str]) -> bool:
    """Whether it asks how, or whether one may: that is the same for everybody."""
    if any(f" {advice} " in f" {' '.join(lowers)} " for advice in _ADVICE):
        return True
    return any(lowers[at : at + len(begin)] == begin for begin in _GENERAL for at in range(min(2, len(lowers))))


def _asks_of_self(lowers: list[str]) -> bool:
    """`what is my …`, `has my …`, `did I …`, `how much do I owe`: helping words, then the asker."""
    at = 0
    while at < len(lowers) and lowers[at] in _HELPING:
        at += 1
    if at == 0 or at == len(lowers):
        return False
    if lowers[at] in _MINE:
        return True
    return lowers[at] in _SELF and lowers[at - 1] in ("am", "was", "have", "had", "did") and at > 0


def _speaks_of_own(lowers: list[str]) -> bool:
    """`my last bill`, and `the balance of my account`."""
    return any(
        lower in _MINE
        and (
            OWN_STATE & set(lowers[at + 1 : at + 1 + _REACH])
            or (lowers[at - 1 : at] in _BELONGS and OWN_STATE & set(lowers[max(0, at - _REACH) : at]))
        )
        for at, lower in enumerate(lowers)
    )
