"""Decides which questions must not share an answer however near they are; pure, symmetric and quick (no model).

What the guards let pass is not yet the same question: how likely that is, `hasten.cache.verifier` says.
"""

from hasten.cache.guards import clause, content, frame, language, likeness, names, numbers, order, polarity, question
from hasten.cache.guards.reading import Reading


def refuses(asked: str, stored: str) -> str | None:
    """The name of the guard that forbids to answer one of these questions with the answer of the other, else None.

    In this order: language, numbers, names, negation, opposites, clauses, words, question, order.
    """
    return compared(Reading(asked), Reading(stored))


def compared(left: Reading, right: Reading) -> str | None:
    """Like `refuses`, for texts that have been read.

    In two tellings of a longer story a number, a name or a denial that only one mentions is background: there it
    takes a contradiction.
    """
    if language.differs(left, right):
        return "language"
    retold = likeness.retold(left, right)
    guard = _contradiction(left, right) if retold else _difference(left, right)
    if guard or polarity.opposed(left, right):
        return guard or "opposites"
    if clause.overrides(left) != clause.overrides(right) if retold else clause.differs(left, right):
        return "clauses"
    if frame.differs(left, right):
        return "words"
    alike = likeness.near(left, right) or not any(content.left_over(left, right))
    if alike and question.differs(left, right):
        return "question"
    moved = order.differs if alike else order.names_differ
    return "order" if moved(left, right) else None


def _difference(left: Reading, right: Reading) -> str | None:
    if numbers.differ(left.quantities, right.quantities) or numbers.reordered(left.counted, right.counted):
        return "numbers"
    if names.differ(left, right):
        return "names"
    return "negation" if polarity.negation_differs(left, right) else None


def _contradiction(left: Reading, right: Reading) -> str | None:
    if numbers.conflict(left.quantities, right.quantities):
        return "numbers"
    return "names" if names.conflict(left, right) else None


__all__ = ["Reading", "compared", "refuses"]
