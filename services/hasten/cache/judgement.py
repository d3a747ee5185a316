"""What is thought of one neighbour of a question: the guards first, then how likely both are the same; pure."""

import msgspec

from hasten.cache.guards import Reading, compared
from hasten.cache.verifier import Weights


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """Why a neighbour may not answer (None: it may), the guard that says so, and the confidence if it came to that."""

    reason: str | None = None
    guard: str | None = None
    confidence: float | None = None


UNJUDGED = Judgement()


def judged(asked: Reading, stored: Reading, similarity: float, threshold: float, weights: Weights) -> Judgement:
    """The judgement on two questions of this cosine similarity; `threshold` is the least confidence of a hit."""
    if guard := compared(asked, stored):
        return Judgement(reason="guard", guard=guard)
    confidence = weights.confidence(asked, stored, similarity)
    return Judgement(reason=None if confidence >= threshold else "threshold", confidence=round(confidence, 4))
