"""Says what became of each part of a prompt, and why."""

import itertools
from collections.abc import Iterator

from hasten.compressor import pieces, recall
from hasten.compressor.parts import Parts, Plan, flat
from hasten.compressor.tokens import TokenCounter, as_json, written
from hasten.messages.compress import Part

NEVER = "never cut"


def explain(parts: Parts, plan: Plan, counter: TokenCounter) -> list[Part]:
    """One Part for each kind that is there, and one for each passage. They leave out what the template adds."""
    return [*_fixed(parts, counter), *_examples(parts, plan), *_history(parts, plan), *_passages(parts, plan)]


def _fixed(parts: Parts, counter: TokenCounter) -> Iterator[Part]:
    system = "\n\n".join(turn.text for turn in parts.talk.system)
    tools = as_json(parts.request.tools) if parts.request.tools else ""
    user = written(parts.talk.user) if parts.talk.user else ""
    steps = "".join(written(turn) for turn in flat(parts.talk.steps))
    kinds = {"system": system, "tools": tools, "user": user, "steps": steps}
    for (kind, text), tokens in zip(kinds.items(), counter.counts(list(kinds.values())), strict=True):
        if text:
            yield Part(kind=kind, before=tokens, after=tokens, why=NEVER)


def _examples(parts: Parts, plan: Plan) -> Iterator[Part]:
    if not parts.examples:
        return
    before, after = sum(parts.example_sizes), sum(parts.example_sizes[at] for at in plan.examples)
    why = f"{len(plan.examples)} of {len(parts.examples)} kept, the most similar to the conversation's first question"
    if len(plan.examples) == len(parts.examples):
        why = "all fit"
    elif not plan.examples:
        why = "none is similar, or none fits"
    each = list(pieces.of_examples(parts.examples, parts.example_sizes, plan.examples)) if parts.request.explain else []
    yield Part(kind="examples", before=before, after=after, why=why, pieces=each)


def _history(parts: Parts, plan: Plan) -> Iterator[Part]:
    if not plan.rounds:
        return
    before, after = sum(parts.round_sizes), sum(itertools.compress(parts.round_sizes, plan.rounds))
    gone = plan.rounds.count(False)
    why = f"{gone} of {len(plan.rounds)} rounds left out, the oldest first" if gone else "all fits"
    if plan.recalled:
        why += f"; {len(plan.recalled)} of their sentences, those about the question, are with the last turn"
    each = list(pieces.of_history(parts, plan)) if parts.request.explain else []
    yield Part(kind="history", before=before, after=after + recall.cost(plan.recalled), why=why, pieces=each)


def _passages(parts: Parts, plan: Plan) -> Iterator[Part]:
    question = pieces.asked_in(parts) if parts.request.explain else ""
    for document, units in zip(parts.documents, plan.units, strict=True):
        yield Part(
            kind="passage",
            id=document.passage.id,
            before=document.total,
            after=document.size(units),
            why=_why(len(units), len(document.units), pinned=document.pinned),
            pieces=pieces.of_passage(document, units, question) if parts.request.explain else [],
        )


def _why(kept: int, all_: int, *, pinned: bool) -> str:
    if not all_:
        return "empty"
    if pinned:
        return "marked to be kept"
    if kept == all_:
        return "kept whole"
    if not kept:
        return "left out: other passages are closer to the question"
    return f"{kept} of {all_} sentences kept, those closest to the question"
