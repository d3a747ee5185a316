"""Hit rate against wrong hits, from scores and labels, and thresholds learnt without the pairs they are applied to."""

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What one threshold comes to. `answerable` are the pairs that are the same, `traps` those that are not."""

    threshold: float | None
    right: int
    wrong: int
    answerable: int
    traps: int

    @property
    def hit_rate(self) -> float:
        """Good hits among answerable pairs."""
        return self.right / max(1, self.answerable)

    @property
    def wrong_rate(self) -> float:
        """Wrong hits among all hits."""
        return self.wrong / max(1, self.right + self.wrong)

    @property
    def trap_rate(self) -> float:
        """Traps served among traps."""
        return self.wrong / max(1, self.traps)


def at(scores: Array, same: Flags, threshold: float) -> Point:
    """The point of a threshold: scores of at least that are hits."""
    return counted(scores >= threshold, same, threshold)


def counted(hits: Flags, same: Flags, threshold: float | None = None) -> Point:
    """The point of these hits."""
    return Point(
        threshold=threshold,
        right=int((hits & same).sum()),
        wrong=int((hits & ~same).sum()),
        answerable=int(same.sum()),
        traps=int((~same).sum()),
    )


def points(scores: Array, same: Flags, least: float = -np.inf) -> list[Point]:
    """The point of every score that occurs and is above `least`, from the strictest."""
    order = np.argsort(-scores, kind="stable")
    right, wrong = np.cumsum(same[order]), np.cumsum(~same[order])
    ends = np.flatnonzero(np.r_[np.diff(scores[order]) != 0, True])
    traps, answerable = int((~same).sum()), int(same.sum())
    return [
        Point(
            threshold=float(scores[order[end]]),
            right=int(right[end]),
            wrong=int(wrong[end]),
            answerable=answerable,
            traps=traps,
        )
        for end in ends
        if scores[order[end]] > least
    ]


def best(scores: Array, same: Flags, error: float, least: float = -np.inf) -> Point:
    """The loosest threshold whose hits on these very pairs are wrong in at most this share; none is infinite."""
    kept = [point for point in points(scores, same, least) if point.wrong_rate <= error]
    return max(kept, key=lambda point: point.right, default=counted(np.zeros(len(same), bool), same, float("inf")))


def learnt(scores: Array, same: Flags, error: float, least: float = -np.inf) -> float:
    """The loosest threshold that is expected to keep the error on other pairs: half a wrong hit is added to those that
    were seen, since the threshold was chosen by them; infinite when there is none."""
    kept = [
        point
        for point in points(scores, same, least)
        if point.wrong + 0.5 <= error * (point.right + point.wrong + 1) and point.threshold is not None
    ]
    return min((point.threshold or 0.0 for point in kept), default=np.inf)


def crossed(scores: Array, same: Flags, folds: NDArray[np.int64], error: float, least: float) -> Point:
    """What thresholds do that were learnt on the other folds: the honest version of `best`."""
    hits = np.zeros(len(same), bool)
    for fold in np.unique(folds):
        held = folds == fold
        hits[held] = scores[held] >= learnt(scores[~held], same[~held], error, least)
    return counted(hits, same)
