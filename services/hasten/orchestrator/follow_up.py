"""Finds what of the earlier turns a question leans on, so that it can be searched for; pure, by words alone.

A turn leans when it goes on (`And a new pump?`), points back (`How do I return it?`), or says too little by itself
(`How much?`). The turns before it are then searched along, back to the first that stands alone.
"""

import re
from itertools import islice

from hasten.messages.chat import Turn

MAX_TURNS = 4
"""Earlier turns of the user that are searched along, at most, beside the one that the chain began with."""
EARLIER_CHARS = 400
"""Of an earlier turn, its end: the embedding model reads about a thousand characters, and the question comes first."""
FEW, SOME = 2, 4
"""Words of its own that a turn without names, and one that points back, may have and still lean."""
LONG = 24
"""A turn of more words stands alone, whatever it points at."""
LONG_CHARS = 1000
"""So does one of more characters: the orchestrator's loop is not held up by reading it."""
SHORT_WORDS, SHORT_CHARS = 4, 10
"""A turn in a language whose words are not known here leans when it has no more of them (characters where words are
not divided)."""
_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
_UNDIVIDED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILLERS = _words(
    """
    ok okay well yes yeah yep yup no nope sure great cool fine thanks thank hi hello hey please right sorry
    perfect good alright
    """
)
_BEGINS = (
    r"and|or|but|also|then|what about|how about"
    r"|und|oder|aber|auch|wie wäre|was ist mit|et|ou|mais|et si|qu'en est-il|y|o|pero|qué tal|e|ma|mas|en|maar"
    r"|och|og|eller|а|и|но|или|ve|ya|peki|그럼|그리고"
)
_UNSPACED = "那么|那|还有|では|じゃあ"
_GOES_ON = re.compile(rf"(?:{_BEGINS}|so|what if|why not|which one|why|how come)(?!\w)|{_UNSPACED}", re.IGNORECASE)
_GOES_ON_ONLY = re.compile(rf"(?:{_BEGINS})(?!\w)|{_UNSPACED}", re.IGNORECASE)
_POINTS = _words(
    """
    it its it's it'll they them their theirs they're this that that's these those he she him his her hers one ones
    another other others instead again too else either both former latter there then same such es ihn ihm ihr
    ihnen dies diese dieser dieses das davon dafür damit dazu dort dabei ça cela ceci celui celle elle elles lui
    leur eso esto ese esa ella ello aquello
    """
)
_THAT_ONE = re.compile(r"\b(?:that|this|the (?:other|same|first|second|last)) ones?\b", re.IGNORECASE)
_EMPTY_SUBJECT = re.compile(
    r"\b(?:is|are|was|were|will|can|could|would)?\s*there\s+(?:is|are|was|be|a|an|any|free|some|no)\b"
    r"|\b(?:is|are|was|were)\s+there\b"
    r"|\bit\s+(?:take|takes|cost|costs|possible|allowed|ok|okay|safe|legal|true|worth|necessary|required)\b"
    r"(?=.{0,200}\bto\b)"
    r"|\b(?:other than|such as|each other|one of|no one|at the same time|this (?:week|month|year)|that (?:is|are))\b",
    re.IGNORECASE,
)
_COMMON = _words(
    """
    a an the i you we me us my your our mine yours ours am is are was were be been being do does did doing don't
    doesn't didn't have has had having can could can't will would won't shall should may might must let let's who
    what what's which when where why how much many long often soon far and or but if so then than as at by for
    from in into of off on onto out over to up with without about after before during until per not no nor only
    just really actually usually still already ever any some all each every more most less least very now today
    get got give take make go going need want like know tell say see help use there here i'm i'd i'll i've you're
    thing things way
    """
)
"""English words that say nothing about a subject."""
_ASSENT = _words("ahead first second third last book do it send link sounds that'd lovely exactly correct")
"""Words that take up an offer and name nothing themselves."""


def retrieval_query(messages: list[Turn]) -> str:
    """What to search for: the user's last turn, with those before it that it leans on, the oldest first.

    When it says nothing of its own (`yes please`) the last sentence of the answer before it is searched along too.
    """
    asked = [(at, turn.text) for at, turn in enumerate(messages) if turn.role == "user" and turn.text]
    if not asked:
        return ""
    first = len(asked) - 1
    while first > 0 and leans(asked[first][1]):
        first -= 1
    chain = [text for _, text in asked[first:]]
    if len(chain) > MAX_TURNS + 1:
        chain = [chain[0], *chain[-MAX_TURNS:]]
    earlier = [end for text in chain[:-1] if _own(end := _end(text))]
    if len(chain) > 1 and not _own(chain[-1]):
        earlier.append(_offer(messages[: asked[-1][0]]))
    return "\n".join([*filter(None, earlier), chain[-1]])


def leans(text: str) -> bool:
    """Whether a turn cannot be understood without those before it, as far as its words show."""
    said = _without_fillers(text)
    if len(said) > LONG_CHARS:
        return False
    bare = _EMPTY_SUBJECT.sub(" ", said)
    words = _WORD.findall(bare)
    if not words:
        return True
    if len(words) > LONG:
        return False
    if _GOES_ON.match(bare.strip()) or _THAT_ONE.search(bare) or words[-1].lower() == "then":
        return True
    own = _own(said)
    if _UNDIVIDED.search(said):
        return len("".join(words)) <= SHORT_CHARS
    if _points_back(words):
        return len(own) <= SOME
    if not _is_english(words):
        return len(words) <= SHORT_WORDS
    names = any(_is_name(word) for word in own) or (len(own) == FEW and "your" in map(str.lower, words))
    return len(own) <= FEW and not names


def goes_on(text: str) -> bool:
    """Whether a turn begins as what goes on from another (`And a new pump?`): alone it is no question."""
    said = text.strip()
    return len(said) <= LONG_CHARS and bool(_GOES_ON_ONLY.match(said)) and len(_WORD.findall(said)) <= LONG


def _without_fillers(text: str) -> str:
    """The text from its first word that means something: `ok, so` and `yes` only lead on."""
    start = 0
    for found in islice(_WORD.finditer(text), LONG):
        if found[0].lower() not in _FILLERS:
            return text[found.start() :]
        start = found.end()
    return text[start:]


def _points_back(words: list[str]) -> bool:
    """Whether a word points at something that the turn itself has not named before it."""
    named = 0
    for word in words:
        lower = word.lower().replace("’", "'")
        if lower in _POINTS:
            return named <= FEW
        named += lower not in _COMMON
    return False


def _own(text: str) -> list[str]:
    """The words that say something about a subject."""
    return [
        word
        for word in _WORD.findall(text)
        if (lower := word.lower().replace("’", "'")) not in _COMMON
        and lower not in _POINTS
        and lower not in _FILLERS
        and lower not in _ASSENT
    ]


def _is_english(words: list[str]) -> bool:
    return any(word.lower().replace("’", "'") in _COMMON for word in words)


def _is_name(word: str) -> bool:
    return word[0].isupper() or any(character.isdigit() for character in word)


def _offer(before: list[Turn]) -> str:
    """The last sentence of the last answer."""
    answers = [turn.text for turn in before if turn.role == "assistant" and turn.text]
    return _end(re.split(r"(?<=[.!?。！？])\s+", answers[-1].strip())[-1]) if answers else ""


def _end(text: str) -> str:
    """The end of a text that is long, from the beginning of a word on."""
    return text if len(text) <= EARLIER_CHARS else text[-EARLIER_CHARS:].partition(" ")[2] or text[-EARLIER_CHARS:]
