"""Decides whether two questions that are near in meaning may share an answer; pure, symmetric and quick (no model)."""

from hasten.cache.guards import content, language, names, numbers, order, polarity, question
from hasten.cache.guards.reading import Reading


def refuses(asked: str, stored: str) -> str | None:
    """The name of the guard that forbids to answer one of these questions with the answer of the other, else None.

    In this order: language, numbers, names, negation, opposites, question, clauses, words, order.
    """
    return compared(Reading(asked), Reading(stored))


def compared(left: Reading, right: Reading) -> str | None:
    """Like `refuses`, for texts that have been read."""
    if language.differs(left, right):
        return "language"
    if numbers.differ(left.quantities, right.quantities) or numbers.reordered(left.counted, right.counted):
        return "numbers"
    if names.differ(left, right):
        return "names"
    if polarity.negation_differs(left, right):
        return "negation"
    if polarity.opposed(left, right):
        return "opposites"
    if question.differs(left, right):
        return "question"
    ours, theirs = content.left_over(left, right)
    if ours or theirs:
        return "words" if ours and theirs else "clauses"
    return "order" if order.differs(left, right) else None


__all__ = ["Reading", "compared", "refuses"]
