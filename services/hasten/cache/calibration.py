"""Learns from labelled pairs how sure the cache must be for an error bound to hold; pure.

The bound is one on the share of wrong hits among all hits, by Clopper and Pearson (1934), one-sided, at 95% confidence.
Thresholds are tried from the strictest that enough pairs reach down to the first that fails, so that trying many does
not weaken the bound (fixed-sequence testing; Angelopoulos and others, Learn then Test, 2021).
"""

import math
from collections.abc import Sequence

import msgspec

CONFIDENCE = 0.95
SHOWN = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A pair with the confidence that the cache has in it, None where a guard forbids it, and the truth."""

    confidence: float | None
    same: bool
    collection: str = ""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What a threshold does: good hits among the pairs that are the same, wrong ones among the hits, and the share of
    wrong ones that may be behind that."""

    threshold: float
    hits: int
    wrong: int
    hit_rate: float
    wrong_rate: float
    at_most: float


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What was learnt for one collection, or for all pairs (`collection` empty).

    `threshold` is None when the pairs do not prove the bound: then `needed` is how many hits without a wrong one would,
    and `guess` the loosest threshold whose hits among these very pairs keep it, which is no proof.
    """

    collection: str
    pairs: int
    same: int
    threshold: float | None
    found: Step | None
    needed: int
    guess: Step | None
    curve: list[Step]


def calibrated(pairs: Sequence[Scored], max_error: float, collection: str = "") -> Calibration:
    """The loosest threshold that keeps wrong hits at `max_error` of all hits or below, as far as these pairs prove."""
    same = sum(pair.same for pair in pairs)
    needed = proof(max_error)
    steps = [step(pairs, threshold) for threshold in _thresholds(pairs)]
    found: Step | None = None
    for one in (one for one in steps if one.hits >= needed):
        if one.at_most > max_error:
            break
        found = one
    kept = [one for one in steps if one.wrong_rate <= max_error]
    return Calibration(
        collection=collection,
        pairs=len(pairs),
        same=same,
        threshold=None if found is None else found.threshold,
        found=found,
        needed=needed,
        guess=max(kept, key=lambda one: one.hits, default=None) if found is None else None,
        curve=[step(pairs, threshold) for threshold in SHOWN],
    )


def by_collection(pairs: Sequence[Scored], max_error: float) -> list[Calibration]:
    """For all pairs together first, then for each collection that is named."""
    names = sorted({pair.collection for pair in pairs} - {""})
    own = [calibrated([pair for pair in pairs if pair.collection == name], max_error, name) for name in names]
    return [calibrated(pairs, max_error), *own]


def step(pairs: Sequence[Scored], threshold: float) -> Step:
    """What this threshold does to these pairs."""
    hits = [pair for pair in pairs if pair.confidence is not None and pair.confidence >= threshold]
    wrong = sum(not pair.same for pair in hits)
    same = sum(pair.same for pair in pairs)
    return Step(
        threshold=threshold,
        hits=len(hits),
        wrong=wrong,
        hit_rate=(len(hits) - wrong) / max(1, same),
        wrong_rate=wrong / max(1, len(hits)),
        at_most=upper(wrong, len(hits)),
    )


def _thresholds(pairs: Sequence[Scored]) -> list[float]:
    """From the strictest, rounded down to what one writes into a config; 1 would leave no hits at all."""
    reached = {math.floor(pair.confidence * 1000) / 1000 for pair in pairs if pair.confidence is not None}
    return sorted((threshold for threshold in reached if threshold < 1), reverse=True)


def upper(wrong: int, hits: int, confidence: float = CONFIDENCE) -> float:
    """The largest share of wrong hits under which so few of so many would be seen with a chance of 1 − confidence."""
    if wrong >= hits:
        return 1.0
    low, high = wrong / hits, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _at_most(wrong, hits, middle) < 1 - confidence else (middle, high)
    return high


def proof(max_error: float, confidence: float = CONFIDENCE) -> int:
    """How many hits without a single wrong one prove the bound."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - max_error)) if 0 < max_error < 1 else 1


def _at_most(wrong: int, hits: int, share: float) -> float:
    """The chance of at most so many wrong ones among so many hits, by the binomial distribution."""
    if share >= 1:
        return 0.0
    logs = (_log_choose(hits, n) + n * math.log(share) + (hits - n) * math.log1p(-share) for n in range(wrong + 1))
    return math.fsum(map(math.exp, logs)) if share > 0 else 1.0


def _log_choose(of: int, some: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(some + 1) - math.lgamma(of - some + 1)
