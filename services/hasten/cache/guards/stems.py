"""Cuts the commonest endings of English words; equal stems may stand for each other."""

_VOWELS = frozenset("aeiouy")


def stem(word: str) -> str:
    """A lower-case word without plural, -ing, -ed, a final e or a doubled end; short and non-English words unchanged.

    Stems are no words (`charg`, `bil`); they are only ever compared with each other.
    """
    if len(word) <= 3 or not word.isascii():
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes")):
        return _single(word[:-2])
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        cut = word.removesuffix(ending)
        if cut != word and len(cut) >= 3 and _VOWELS & set(cut):
            return _single(cut)
    return _single(word)


def _single(word: str) -> str:
    if len(word) > 4 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in _VOWELS else word
