"""Chooses few-shot examples."""

from collections.abc import Sequence

from hasten.messages.chat import Example
from hasten.terms import overlap, terms, weights


def choose(examples: Sequence[Example], sizes: Sequence[int], text: str, room: int) -> list[int]:
    """Indices, in order, of the examples most like `text` that fit into `room` tokens; none without a word of it."""
    documents = [frozenset(terms(example.user)) for example in examples]
    query = weights(terms(text), documents)
    scores = [overlap(document, query) for document in documents]
    chosen: list[int] = []
    for at in sorted(range(len(examples)), key=lambda at: (-scores[at], examples[at].user)):
        if scores[at] > 0 and sizes[at] <= room:
            chosen.append(at)
            room -= sizes[at]
    return sorted(chosen)
