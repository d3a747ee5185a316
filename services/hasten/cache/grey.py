"""The grey zone: neighbours that no guard forbids outright although they are not near or not alike enough; pure."""

import hashlib
import math

import msgspec

from hasten.cache.domain import Entry
from hasten.cache.guards import Reading, language, names, numbers, order, polarity
from hasten.cache.settings import Settings
from hasten.fingerprint import question_hash
from hasten.messages.cache import CacheLookup


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


def judged_from(lookup: CacheLookup, settings: Settings) -> float:
    """The least similarity of a pair that a second opinion is asked about: never below what the caller takes, and
    infinite for a caller who takes the identical text only."""
    if lookup.max_distance is None:
        return settings.opinion_floor
    return max(settings.opinion_floor, 1.0 - lookup.max_distance) if lookup.max_distance > 0 else math.inf


def mark(entry: Entry, asked: str, settings: Settings) -> str:
    """Under which hash a verdict on two questions, either way round, is remembered.

    It names the model and what it takes for a yes, and the partition, which holds the system prompt: what two
    questions have in common may depend on all of them.
    """
    judge = [settings.opinion, str(settings.opinion_threshold)]
    sides = sorted({question_hash(entry.text), question_hash(asked)})
    return hashlib.sha256(msgspec.json.encode([*judge, entry.tenant, entry.partition, *sides])).hexdigest()[:40]
