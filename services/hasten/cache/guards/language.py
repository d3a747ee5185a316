"""Languages: a question in one is not answered with what was said in another."""

import unicodedata

from hasten.cache.guards.reading import Reading
from hasten.cache.guards.wording import NEUTRAL, words

LANGUAGES = {
    "en": words("the is are of and to in for how what do does can my i you with on it when where"),
    "de": words(
        """
    der die das ist sind und wie viel ich nicht ein eine mein meine kann mit auf für wo wann was den dem
    """
    ),
    "fr": words(
        """
    le la les est sont et comment combien je ne pas un une mon ma peut avec sur pour où quand que des du
    """
    ),
    "es": words(
        """
    el la los las es son y cómo cuánto yo no un una mi puedo con en para dónde cuándo qué del por
    """
    ),
    "it": words(
        """
    il lo la gli è sono e come quanto io non un una mio mia posso con su per dove quando che di del
    """
    ),
    "pt": words(
        """
    o a os as é são e como quanto eu não um uma meu minha posso com em para onde quando que do da
    """
    ),
    "nl": words("de het is zijn en hoe veel ik niet een mijn kan met op voor waar wanneer wat van"),
    "sv": words("den det är och hur mycket jag inte en ett min mitt kan med på för var när vad av att"),
    "no": words("den det er og hvordan mye jeg ikke en et min mitt kan med på for hvor når hva av å"),
    "pl": words("jest są i jak ile ja nie mój moja mogę z na dla gdzie kiedy co do w się"),
}
"""The commonest words of some languages in the Latin script, enough to tell a question in one from one in another."""

_ENOUGH = 2


def differs(left: Reading, right: Reading) -> bool:
    """Whether the scripts differ, or each is plainly in a language that the other has nothing of."""
    if scripts(left.text) != scripts(right.text):
        return True
    ours, theirs = _met(left), _met(right)
    one, other = _language(ours), _language(theirs)
    return bool(one and other) and not ours[other] and not theirs[one]


def english(reading: Reading) -> bool:
    """Whether it has some common English word, and no more of another language."""
    if not scripts(reading.text) <= {"LATIN"}:
        return False
    known = sum(word.lower in NEUTRAL or word.lower in LANGUAGES["en"] for word in reading.plain)
    return known > 0 and known >= max(_met(reading).values())


def scripts(text: str) -> frozenset[str]:
    """The scripts of the letters, as Unicode names them (LATIN, CYRILLIC, CJK …)."""
    beyond = {
        unicodedata.name(letter, "?").split()[0] for letter in set(text) if letter.isalpha() and not letter.isascii()
    }
    return frozenset(beyond | ({"LATIN"} if any(letter.isascii() and letter.isalpha() for letter in text) else set()))


def _met(reading: Reading) -> dict[str, int]:
    lowers = [word.lower for word in reading.plain if word.kind == "word"]
    return {code: sum(lower in common for lower in lowers) for code, common in LANGUAGES.items()}


def _language(met: dict[str, int]) -> str:
    code = max(met, key=lambda one: met[one])
    return code if met[code] >= _ENOUGH else ""
