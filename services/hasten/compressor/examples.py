"""Chooses few-shot examples."""

from collections.abc import Sequence

from hasten.messages.chat import Example
from hasten.terms import overlap, terms, weights

LEAST = 0.35
"""A smaller cosine is no likeness: chosen on one half of clinc150 (`python -m loadtest.example_quality`)."""


def choose(
    examples: Sequence[Example], sizes: Sequence[int], text: str, room: int, similar: Sequence[float] = ()
) -> list[int]:
    """Indices, in order, of the examples most like `text` that fit into `room` tokens; none when none is like it.

    `similar` are their cosines with the text. Without them it is the words that count, and an example without any word
    of the text is not like it.
    """
    scores = [one if one >= LEAST else 0.0 for one in similar] if similar else _overlaps(examples, text)
    chosen: list[int] = []
    for at in sorted(range(len(examples)), key=lambda at: (-scores[at], examples[at].user)):
        if scores[at] > 0 and sizes[at] <= room:
            chosen.append(at)
            room -= sizes[at]
    return sorted(chosen)


def _overlaps(examples: Sequence[Example], text: str) -> list[float]:
    documents = [frozenset(terms(example.user)) for example in examples]
    query = weights(terms(text), documents)
    return [overlap(document, query) for document in documents]
