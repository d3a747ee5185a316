"""Finds, in rounds of the conversation that are left out, the sentences that the question is about."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hasten.compressor.sentences import split
from hasten.compressor.tokens import TokenCounter
from hasten.messages.chat import Turn
from hasten.terms import overlap, terms, weights

_SPEAKERS = {"user": "User", "assistant": "Assistant", "tool": "Tool"}
_NEAR, _DECAY, _OWN = 10, 0.88, 0.3
"""Turns that count for one, how much less with each turn between, and the weight of a sentence's own words: chosen on
half of the meetings of QMSum (`python -m loadtest.history_quality`)."""
_LEAST = 0.2
"""A passage of talk that holds less than this of the question's words, by their weight, is about something else."""
_LABEL = 4
"""Tokens of a line's end and "Assistant: "."""


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of an old round: the number of its turn, who said it, its terms and its tokens."""

    turn: int
    role: str
    text: str
    terms: frozenset[str]
    size: int


def sentences(rounds: Sequence[Sequence[Turn]], counter: TokenCounter) -> list[Sentence]:
    """The sentences of these rounds in order."""
    turns = [turn for turns in rounds for turn in turns]
    found = [(at, turn.role, unit.text) for at, turn in enumerate(turns) for unit in split(turn.text)]
    sizes = counter.counts([text for _, _, text in found])
    return [
        Sentence(turn=at, role=role, text=text, terms=frozenset(terms(text)), size=size + 1)
        for (at, role, text), size in zip(found, sizes, strict=True)
    ]


def choose(said: Sequence[Sentence], question: str, room: int) -> list[int]:
    """Indices, in order, of the sentences to recall in at most `room` tokens; none when none is about the question.

    Best first: by the words of the question that were said within a few turns, each once and the less the farther
    away, then by the sentence's own.
    """
    query = _query(question, said)
    worths = _worths(said, query)
    chosen: set[int] = set()
    turns: set[int] = set()
    for at in sorted(range(len(said)), key=lambda at: (-worths[at], at)):
        size = said[at].size + (0 if said[at].turn in turns else _LABEL)
        if worths[at] > 0 and size <= room:
            chosen.add(at)
            turns.add(said[at].turn)
            room -= size
    return sorted(chosen)


def _query(question: str, said: Sequence[Sentence]) -> dict[str, float]:
    """The question's terms with weights that sum to 1, or to less where some were never said."""
    asked = set(terms(question))
    found = weights(asked, [sentence.terms for sentence in said])
    total = math.fsum(found.values()) + len(asked - found.keys()) * math.log(2 * (len(said) + 1))
    return {term: weight / total for term, weight in found.items()} if total else {}


def _worths(said: Sequence[Sentence], query: Mapping[str, float]) -> list[float]:
    hits: dict[int, set[str]] = {}
    for sentence in said:
        hits.setdefault(sentence.turn, set()).update(sentence.terms & query.keys())
    near = {turn: _nearness(turn, hits, query) for turn in hits}
    return [
        near[sentence.turn] + _OWN * overlap(sentence.terms, query) if near[sentence.turn] >= _LEAST else 0.0
        for sentence in said
    ]


def _nearness(turn: int, hits: Mapping[int, set[str]], query: Mapping[str, float]) -> float:
    """How much of the question was said around a turn."""
    best: dict[str, float] = {}
    for other in range(turn - _NEAR, turn + _NEAR + 1):
        for term in hits.get(other, ()):
            best[term] = max(best.get(term, 0.0), _DECAY ** abs(other - turn))
    return math.fsum(query[term] * share for term, share in best.items())


def cost(chosen: Sequence[Sentence]) -> int:
    """Tokens of these sentences with the names of who said them."""
    return sum(sentence.size for sentence in chosen) + _LABEL * len({sentence.turn for sentence in chosen})


def text(chosen: Sequence[Sentence]) -> str:
    """The sentences as lines that say who spoke; those of one turn share a line."""
    return "\n".join(_lines(chosen))


def _lines(chosen: Sequence[Sentence]) -> Iterator[str]:
    for (_, role), group in itertools.groupby(chosen, key=lambda sentence: (sentence.turn, sentence.role)):
        yield f"{_SPEAKERS.get(role, role)}: " + " ".join(sentence.text for sentence in group)
