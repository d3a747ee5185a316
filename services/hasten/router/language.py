"""Tells a text that is not English by its script or its most common words; pure.

It need not know which language it is. A short text of names and numbers counts as English.
"""

from collections.abc import Sequence

_ENGLISH = """
the of and to in is that it for was on are with as be this have from or by not what which you an how at do does did can
will would if my your we they he she his her has had who when where why there these their but
"""
_GERMANIC = """
der die das und ist nicht ein eine einen mit von wie ich zu auf für den dem des im wird sind was warum bitte wir sie er
es het een van en niet dat voor zijn met hoe wat waarom op te de og ikke det som på til av jeg hva hvordan hvorfor kan
har du att och är inte jag vad hur om af hvad mig meg mij aus bei einer diesem
"""
_ROMANCE = """
le la les des est une un et pas que qui dans pour sur avec ce cette du au aux je vous nous comment quel quelle sont el
los las es en por con para una se lo como qué cuál cómo del al su más il gli che di non sono della nel come quale perché
cosa os as é não uma da em dos das na ao qual você și este nu în cu pentru mi
"""
_OTHER = """
się nie jest jak czy ten ta że je které kde bir ve bu için ile ne nasıl az egy és nem hogy ja ei että mikä miten yang
dan ini itu untuk dengan tidak apa bagaimana là của và không được cho những dla oraz jako
"""
_COMMON = frozenset(_ENGLISH.split())
_ELSEWHERE = frozenset(word for words in (_GERMANIC, _ROMANCE, _OTHER) for word in words.split()) - _COMMON
_WORDS = 100
"""How many words are looked at."""
_LEAST = 2
"""Common words of other languages that tell; one may be a name."""
_SCRIPT, _GREEK = 0.3, 0.6
"""The share of letters outside the Latin script from which a text is not English (a quotation has less), and the share
of Greek ones, which formulas have too."""


def foreign(words: Sequence[str]) -> bool:
    """Whether a text of these words, in lower case, is in another language than English."""
    seen = words[:_WORDS]
    letters = "".join(seen)
    greek = sum("Ͱ" <= letter <= "Ͽ" for letter in letters)
    beyond = sum(letter > "ɏ" for letter in letters) - greek
    if beyond > _SCRIPT * len(letters) or greek > _GREEK * len(letters):
        return True
    elsewhere = sum(word in _ELSEWHERE for word in seen)
    return elsewhere >= _LEAST and elsewhere > 2 * sum(word in _COMMON for word in seen)
