"""What an instruction says, whatever its words: a set of concepts by which two can be compared; pure."""

import re

import msgspec

from hasten.terms import STOP_WORDS

_GROUPS = """
answer: answer reply respond response write output responses replies answers
give: give provide offer gives provides
short: short brief concise succinct terse concisely briefly succinctly
long: long verbose wordy lengthy detailed comprehensive thorough elaborate exhaustive rambling
polite: polite courteous friendly respectful politely courteously warm
reveal: reveal disclose share expose divulge leak
info: information info detail details data fact facts
user: user users customer customers client clients
question: question questions query queries inquiry inquiries
use: use using employ utilize utilise
invent: invent fabricate hallucinate
only: only solely exclusively
passage: passage passages context document documents article articles excerpt excerpts
cite: cite reference quote
source: source sources citation citations
accurate: accurate accurately correct correctly factual
simple: simple plain simply
formal: formal formally professional professionally
help: help assist
NOT: not never no avoid refrain don't dont cannot can't cant won't shouldn't mustn't without nor doesn't isn't
IF: if when whenever unless once until while except whether case
bullet: bullet bullets
instruction: instruction instructions prompt rules
unknown: unsure uncertain
mention: mention discuss talk
say: say tell state
"""
_OF: dict[str, str] = {}
for _line in _GROUPS.strip().splitlines():
    _name, _, _said = _line.partition(": ")
    _OF |= dict.fromkeys(_said.split(), _name)
_EMPTY = """please kindly always must shall may make sure ensure keep stay remain try need have want note remember
very really extremely clear clearly important importantly at all times time every each given provided supplied
following above below own just also overall general generally language possible ever under circumstances any form etc
based sentence point attempt strive aim tone style manner way come
essential crucial vital critical"""
_DROPPED = STOP_WORDS | frozenset(_EMPTY.split())
_PHRASES = (
    (re.compile(r"\bto (?:the |your |any )?(?:users?|customers?|anyone|people)\b", re.IGNORECASE), ""),
    (re.compile(r"\bmake\s+(?:up|things\s+up)\b", re.IGNORECASE), "invent"),
    (re.compile(r"\bmaking\s+(?:up|things\s+up)\b", re.IGNORECASE), "invent"),
    (re.compile(r"\bto the point\b", re.IGNORECASE), "short"),
    (re.compile(r"\bsystem (?:prompt|message|instructions?)\b", re.IGNORECASE), "instruction"),
    (re.compile(r"\bbullet points?\b", re.IGNORECASE), "bullet"),
    (re.compile(r"\b(?:don't|do not|not) know\b", re.IGNORECASE), "unsure"),
    (re.compile(r"\bunder no circumstances\b", re.IGNORECASE), "never"),
    (re.compile(r"\bin no (?:case|event)\b", re.IGNORECASE), "never"),
    (re.compile(r"\bin depth\b|\bin-depth\b", re.IGNORECASE), "detailed"),
)
_WORD = re.compile(r"\{\{?[^{}\n]*\}?\}|\w+(?:[.,:/@]\w+)*(?:['’]\w+)?|[%€$£<>=≤≥]")
_SUFFIX = re.compile(r"(?<=[a-z]{3})(?:ies|ing|ed|es|s|e|ly|y)$")
_ORDERING = "before after than from instead over then between"
_ORDER = frozenset(_ORDERING.split())
_COUNTED = "zero one two three four five six seven eight nine ten"
NUMBERS = tuple(_COUNTED.split())
_NUMBERS = {word: str(at) for at, word in enumerate(NUMBERS)}
STYLES = frozenset({"short", "long", "polite", "accurate", "simple", "formal", "help"})
LIGHT = frozenset({"answer", "use", "give"})
"""Concepts that say nothing where there are others."""


class Concept(msgspec.Struct, frozen=True, kw_only=True):
    """The concepts of a sentence (`all`, without the `light` ones that it may have had) and their order, which matters
    when it is `ordered`, its figures, names and polarity."""

    all: frozenset[str]
    order: tuple[str, ...]
    ordered: bool
    figures: tuple[str, ...]
    names: frozenset[str]
    negated: bool
    light: bool
    conditional: bool

    @property
    def positive(self) -> frozenset[str]:
        """The concepts without the negation."""
        return self.all - {"NOT"}


def concept_of(text: str) -> Concept:
    """What a sentence says."""
    plain = text
    for pattern, word in _PHRASES:
        plain = pattern.sub(word, plain)
    words = [found[0] for found in _WORD.finditer(plain)]
    names = frozenset(word for at, word in enumerate(words) if _is_name(word, at))
    said: list[str] = []
    for word in (word.lower().replace("’", "'") for word in words):
        name = _OF.get(word) or _OF.get(word.removesuffix("'s"))
        if name is not None:
            said.append(name)
        elif word not in _DROPPED or word in _NUMBERS:
            said.append(_NUMBERS.get(word) or _SUFFIX.sub("", word))
    telling = frozenset(said)
    light = bool(telling & LIGHT)
    if (telling - {"NOT", "only", "IF"}) - LIGHT:
        telling -= LIGHT
    if {"NOT", "long"} == set(telling):
        telling = frozenset({"short"})
    lower = {word.lower() for word in words}
    return Concept(
        all=telling,
        order=tuple(one for one in said if one in telling),
        ordered=bool(lower & _ORDER),
        figures=tuple(sorted(one for one in said if any(map(str.isdigit, one)))),
        names=names,
        negated=said.count("NOT") % 2 == 1 and "NOT" in telling,
        light=light,
        conditional="IF" in telling,
    )


def _is_name(word: str, at: int) -> bool:
    """A capitalised word inside a sentence, one with capitals inside, or a placeholder."""
    if word.startswith("{"):
        return True
    if word.isupper() and len(word) > 1 and word.lower() in _OF.keys() | _DROPPED:
        return False
    return any(map(str.isupper, word[1:])) or (
        at > 0 and word[:1].isupper() and word.lower() not in _OF.keys() | _DROPPED
    )
