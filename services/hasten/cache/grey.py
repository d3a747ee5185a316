"""The grey zone: what no guard forbids outright although it was not near enough, or not alike enough in words; pure."""

from hasten.cache.guards import Reading, language, names, numbers, order, polarity


def arguable(asked: Reading, stored: Reading) -> bool:
    """Whether a second opinion may say that two questions are the same: never over another language, other numbers or
    names, a negation, opposites, or exchanged roles."""
    return not (
        language.differs(asked, stored)
        or numbers.differ(asked.quantities, stored.quantities)
        or numbers.reordered(asked.counted, stored.counted)
        or names.differ(asked, stored)
        or polarity.negation_differs(asked, stored)
        or polarity.opposed(asked, stored)
        or order.differs(asked, stored)
    )
