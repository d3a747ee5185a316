"""Reads a question once for all guards: contractions resolved, ways of saying unified, quantities found."""

from collections.abc import Iterator
from functools import cached_property

from hasten.cache.guards.lexicon import SYNONYMS
from hasten.cache.guards.numbers import Quantity, Span, spans
from hasten.cache.guards.stems import stem
from hasten.cache.guards.tokens import Word, tokens
from hasten.cache.guards.wording import CONTRACTIONS, ENDINGS, FRAMES, IS_AFTER, NEUTRAL, OPENINGS

_ANYWHERE = {tuple(said.split()): tuple(meant.split()) for said, meant in FRAMES.items()}
_AT_THE_START = _ANYWHERE | {tuple(said.split()): tuple(meant.split()) for said, meant in OPENINGS.items()}
_LONGEST = max(map(len, _AT_THE_START))


class Reading:
    """What the guards look at. `plain` are the words as said, `words` those with variation removed that never changes a
    meaning; what stands for another way of saying has an empty `raw`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.plain = [part for word in tokens(text) for part in _resolved(word)]
        self.words = list(_unified(self.plain))

    @cached_property
    def counted(self) -> list[Span]:
        """Where every quantity stands, in order."""
        return spans(self.words)

    @property
    def quantities(self) -> list[Quantity]:
        """Every quantity, in order."""
        return [span.quantity for span in self.counted]

    @cached_property
    def meaningful(self) -> dict[int, str]:
        """Canonical stem of each word that carries a meaning of its own, by its position in `words`."""
        counted = {at for span in self.counted for at in range(span.start, span.end)}
        return {
            at: canonical(word.lower)
            for at, word in enumerate(self.words)
            if word.kind == "word" and at not in counted and (word.lower not in NEUTRAL or word.shouted)
        }

    @cached_property
    def content(self) -> dict[str, Word]:
        """The stems of `meaningful`, each with the first word that has it."""
        made: dict[str, Word] = {}
        for at, word in self.meaningful.items():
            made.setdefault(word, self.words[at])
        return made

    @cached_property
    def lowers(self) -> frozenset[str]:
        """Every word in lower case, as written and as unified, and its stem."""
        written = {word.lower for word in (*self.plain, *self.words)}
        return frozenset(written | {stem(word) for word in written})


def canonical(word: str) -> str:
    """The stem of a lower-case word, or that of the first of its synonyms."""
    made = stem(word)
    return SYNONYMS.get(made, made)


def _resolved(word: Word) -> Iterator[Word]:
    """A contraction as the words it stands for, a possessor without its ending."""
    lower = word.lower.rstrip("'")
    if word.kind != "word" or ("'" not in lower and lower not in CONTRACTIONS):
        yield word if lower == word.lower else Word(word.raw[: len(lower)], lower, word.kind, word.first)
        return
    for at, part in enumerate(CONTRACTIONS.get(lower, "").split() or _parts(lower)):
        yield Word(
            word.raw[: len(part)] if at == 0 and lower.startswith(part) else part, part, "word", word.first and at == 0
        )


def _parts(lower: str) -> list[str]:
    if lower.endswith("'s"):
        return [lower[:-2], "is"] if lower[:-2] in IS_AFTER else [lower[:-2]]
    for ending, meaning in ENDINGS.items():
        if lower.endswith(ending) and len(lower) > len(ending):
            return [lower.removesuffix(ending), meaning]
    return lower.split("'")


def _unified(words: list[Word]) -> Iterator[Word]:
    """Ways of saying replaced by what they mean, the longest first; `OPENINGS` only where a clause begins."""
    at, begins = 0, True
    while at < len(words):
        frames = _AT_THE_START if begins or words[at].first else _ANYWHERE
        for length in range(min(_LONGEST, len(words) - at), 0, -1):
            said = words[at : at + length]
            meant = frames.get(tuple(word.lower for word in said))
            if meant is not None and not any(word.shouted for word in said):
                yield from (Word("", part, "word") for part in meant)
                at += length
                begins = begins and not meant
                break
        else:
            yield words[at]
            begins = words[at].kind == "mark"
            at += 1
