"""Says of each sentence, round and example whether it was kept, and why; only where somebody asks."""

import itertools
from collections.abc import Iterator, Sequence

from hasten.compressor.document import Document
from hasten.compressor.history import pinned
from hasten.compressor.parts import Parts, Plan
from hasten.compressor.tokens import written
from hasten.messages.chat import Example
from hasten.messages.compress import Piece
from hasten.terms import terms, words

_SHOWN = 5
"""Words in common that are named."""


def of_passage(document: Document, kept: Sequence[int], question: str) -> list[Piece]:
    """The sentences, items, rows and blocks of a passage in order."""
    chosen, asked = set(kept), frozenset(terms(question))
    leads = {document.units[at].lead for at in chosen}
    said = [document.unit_terms[at] for at in chosen]
    made = []
    for at, unit in enumerate(document.units):
        if document.pinned:
            why = "the passage is marked to be kept"
        elif at in chosen:
            why = _why_kept(unit.text, asked, brings=at in leads)
        else:
            why = _why_cut(document.unit_terms[at], asked, said, none=not chosen)
        if (near := _near(document, unit.text)) is not None:
            why = f"{why} (similarity {near:.2f})"
        made.append(Piece(text=unit.text, tokens=document.sizes[at], kept=at in chosen, why=why))
    return made


def _why_kept(text: str, asked: frozenset[str], *, brings: bool) -> str:
    shared = [word for word in dict.fromkeys(words(text)) if asked.intersection(terms(word))][:_SHOWN]
    if shared:
        return f"it has {', '.join(shared)}"
    return "what is kept hangs on it" if brings else "it is beside what is kept, or its passage is ranked high"


def _why_cut(unit: frozenset[str], asked: frozenset[str], said: list[frozenset[str]], *, none: bool) -> str:
    if none:
        return "its passage is left out"
    if unit and any(unit <= other for other in said):
        return "what is kept says it already"
    return "others are closer to the question" if unit & asked else "it has no word of the question"


def _near(document: Document, text: str) -> float | None:
    """How near the retriever found a sentence to the question, where it has compared them."""
    whole = document.passage.text
    for one in document.passage.sentences:
        said = whole[one.start : one.end].strip()
        if said and (said in text or text in said):
            return one.score
    return None


def of_history(parts: Parts, plan: Plan) -> Iterator[Piece]:
    """The rounds of the conversation before the last user turn, the oldest first."""
    for turns, size, kept, fixed in zip(parts.talk.rounds, parts.round_sizes, plan.rounds, parts.pinned, strict=True):
        text = "\n".join(f"{turn.role}: {written(turn)}" for turn in turns)
        if pinned(turns):
            why = "marked to be kept"
        elif fixed:
            why = "a tool call whose result came later"
        else:
            why = "it fits" if kept else "left out with the rounds of its step"
        yield Piece(text=text, tokens=size, kept=kept, why=why)


def of_examples(examples: Sequence[Example], sizes: Sequence[int], kept: Sequence[int]) -> Iterator[Piece]:
    """The few-shot examples in order."""
    every = len(kept) == len(examples)
    for at, (example, size) in enumerate(zip(examples, sizes, strict=True)):
        why = "all fit" if every else "among the most similar" if at in kept else "less similar, or it does not fit"
        yield Piece(text=f"{example.user}\n{example.assistant}", tokens=size, kept=at in kept, why=why)


def asked_in(parts: Parts) -> str:
    """What the sentences are compared with: the last user turn, and the one before it."""
    before = [turn.text for turn in itertools.chain(*parts.talk.rounds) if turn.role == "user"][-1:]
    last = [parts.talk.user.text] if parts.talk.user else []
    return "\n".join(last if last and len(terms(last[0])) > 3 else [*before, *last])
