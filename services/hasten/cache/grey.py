"""The grey zone: which neighbours that no guard forbids, and that are not likely enough to be the same, are judged by a
model, and under which hash its verdict is remembered; pure."""

import hashlib
import math

import msgspec

from hasten.cache.domain import Entry, least_similarity
from hasten.cache.settings import Settings
from hasten.fingerprint import question_hash
from hasten.messages.cache import CacheLookup


def judged_from(lookup: CacheLookup, threshold: float, settings: Settings) -> float:
    """The least cosine similarity of a pair that a second opinion is asked about; never below what the caller takes.

    Infinite for a caller who takes the identical text only, and where a tenant or a collection has a `threshold` of its
    own that is stricter than the general one: who set it wants fewer hits, not a model's word for more.
    """
    if threshold > settings.threshold or (lookup.max_distance is not None and lookup.max_distance <= 0):
        return math.inf
    return max(settings.opinion_floor, least_similarity(lookup))


def mark(entry: Entry, asked: str, settings: Settings) -> str:
    """Under which hash a verdict on two questions, either way round, is remembered.

    It names the model and what it takes for a yes, and the partition, which holds the system prompt: what two
    questions have in common may depend on all of them.
    """
    judge = [settings.opinion, str(settings.opinion_threshold)]
    sides = sorted({question_hash(entry.text), question_hash(asked)})
    return hashlib.sha256(msgspec.json.encode([*judge, entry.tenant, entry.partition, *sides])).hexdigest()[:40]
