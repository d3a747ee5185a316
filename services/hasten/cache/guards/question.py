"""What is asked: how, when, where or whether; what may, must or should be; in the past or now; about whom."""

from itertools import groupby, pairwise

from hasten.cache.guards.reading import Reading
from hasten.cache.guards.tokens import Word
from hasten.cache.guards.wording import words

_WH = {"what": "what", "which": "what", "who": "who", "whom": "who", "whose": "whose", "when": "when",
    "where": "where", "why": "why", "how": "how"}  # fmt: skip
_LEVEL = frozenset({"who", "where", "how"})
"""Here `do I`, `can I` and `should I` ask for the same."""
_AUXILIARIES = words("is are am was were do does did has have had can could may might will would shall should must")
_MODALS = {"can": "can", "could": "can", "may": "can", "might": "can", "should": "should", "must": "must",
    "need": "must", "needs": "must", "needed": "must"}  # fmt: skip
_PAST = frozenset({"was", "were", "did", "had"})
_PERSONS = {"i": 1, "me": 1, "my": 1, "mine": 1, "we": 1, "us": 1, "our": 1, "you": 2, "your": 2, "yours": 2}
_WHOSE = {"my": "mine", "mine": "mine", "our": "mine", "ours": "mine", "your": "yours", "yours": "yours", "his": "his",
    "her": "hers", "hers": "hers", "their": "theirs", "theirs": "theirs"}  # fmt: skip


_EXCHANGED = (("me", "you"), ("you", "me"), ("i", "me"), ("me", "i"))


def differs(left: Reading, right: Reading) -> bool:
    """Whether the two ask for another kind of answer about the same things."""
    if asks(left) != asks(right) or _past(left) != _past(right) or _exchanged(left, right):
        return True
    ours, theirs = whose(left), whose(right)
    return bool(ours and theirs and ours != theirs)


def asks(reading: Reading) -> frozenset[str]:
    """The kinds of question in the text: `what`, `when`, …, `how to`, `whether` with its modal, or nothing."""
    return frozenset(kind for sentence in _sentences(reading.words) if (kind := _kind(sentence)))


def whose(reading: Reading) -> frozenset[str]:
    """Whose things it is about, by possessive."""
    return frozenset(_WHOSE[word.lower] for word in reading.words if word.lower in _WHOSE)


def _sentences(words: list[Word]) -> list[list[Word]]:
    made: list[list[Word]] = [[]]
    for word in words:
        if word.kind == "mark" and word.lower in ".!?\n":
            made.append([])
        else:
            made[-1].append(word)
    return [sentence for sentence in made if sentence]


def _kind(sentence: list[Word]) -> str:
    lowers = [word.lower for word in sentence]
    modals = sorted({_MODALS[lower] for lower in lowers if lower in _MODALS})
    begins = {0, *(at + 1 for at, word in enumerate(sentence) if word.kind == "mark")}
    asking = next(
        (at for at, lower in enumerate(lowers) if lower in _WH or (at in begins and lower in _AUXILIARIES)), None
    )
    if asking is None:
        return ""
    if lowers[asking] not in _WH:
        return " ".join(["whether", *modals])
    if lowers[asking : asking + 3] == ["how", "do", "i"]:
        return "how to"
    if lowers[asking : asking + 2] == ["what", "is"] and lowers[asking + 2 : asking + 3] in (["a"], ["an"]):
        return "what is a"
    return " ".join([_WH[lowers[asking]], *([] if lowers[asking] in _LEVEL and modals != ["must"] else modals)])


def _past(reading: Reading) -> bool:
    lowers = [word.lower for word in reading.words]
    asked = any(wh in _WH and verb.endswith("ed") for wh, verb in pairwise(lowers))
    return asked or any(lower in _PAST for lower in lowers)


def _exchanged(left: Reading, right: Reading) -> bool:
    """Whether speaker and listener have changed places: `what do I call you`, `what do you call me`."""
    ours, theirs = _persons(left), _persons(right)
    if len(set(ours)) == len(set(theirs)) == 2 and ours != theirs:
        return True
    one, other = _said(left), _said(right)
    return any(said in one - other and heard in other - one for said, heard in _EXCHANGED)


def _persons(reading: Reading) -> list[int]:
    return [person for person, _ in groupby(_PERSONS[word.lower] for word in reading.words if word.lower in _PERSONS)]


def _said(reading: Reading) -> set[str]:
    return {word.lower for word in reading.words if word.raw}
