"""Fits the verifier's weights and measures a score on pairs: what is answered, how much of it wrongly."""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from hasten.cache.guards import Reading, compared
from hasten.cache.lookup import unsuited
from hasten.cache.settings import Settings
from hasten.cache.signs import Signs, signs
from hasten.cache.verifier import AT, SIGNS, Weights
from loadtest.pairs import Pair, fold

Array = NDArray[np.float64]
FOLDS = 10
SIMILARITY = 16.0
SET = {"near": -2.5, "whether": -0.6, "aspect": -0.6, "denial": -0.5}
RIDGE = 0.3
REFUSED = -99.0
"""The score of a pair that a guard forbids or that is found by its key only."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A pair as the cache sees it: `refusal` is why it is never answered by meaning."""

    pair: Pair
    similarity: float
    signs: Signs
    refusal: str | None


def judged(pairs: Sequence[Pair], vectors: dict[str, NDArray[np.float32]], settings: Settings) -> list[Judged]:
    """Each pair with its similarity and signs."""
    made = []
    for pair in pairs:
        left, right = Reading(pair.a), Reading(pair.b)
        refusal = unsuited(pair.a, left, settings) or unsuited(pair.b, right, settings) or compared(left, right)
        similarity = float(vectors[pair.a] @ vectors[pair.b])
        made.append(Judged(pair=pair, similarity=similarity, signs=signs(left, right), refusal=refusal))
    return made


def fit(cases: Sequence[Judged]) -> Weights:
    """The weights that tell these pairs apart, without those that no guard lets pass.

    A logistic regression by Newton's method, both kinds of pairs counting equally. Signs of difference may only lower
    the score (a weight that would raise it is 0), and the weight of the similarity and four others are set: see
    docs/cache-quality.md.
    """
    used = [case for case in cases if case.refusal is None]
    same = np.array([case.pair.same for case in used])
    table = np.array([[getattr(case.signs, name) for name in SIGNS] for case in used])
    held = SIMILARITY * (np.array([case.similarity for case in used]) - AT) + table @ _set()
    balance = np.where(same, 0.5 / max(1, same.sum()), 0.5 / max(1, (~same).sum())) * 2
    free = [at for at, name in enumerate(SIGNS) if name not in SET]
    found = _logistic(np.column_stack([table[:, free], np.ones(len(used))]), same, held, balance, free)
    learnt = {SIGNS[at]: round(float(found[place]), 3) for place, at in enumerate(free)}
    return Weights(bias=round(float(found[-1]), 3), similarity=SIMILARITY, **{**SET, **learnt})


def _set() -> Array:
    return np.array([SET.get(name, 0.0) for name in SIGNS])


def _logistic(table: Array, same: NDArray[np.bool_], held: Array, balance: Array, free: list[int]) -> Array:
    dropped: set[int] = set()
    while True:
        columns = [at for at in range(table.shape[1]) if at not in dropped]
        found = np.zeros(table.shape[1])
        found[columns] = _newton(table[:, columns], same, held, balance)
        wrong = {place for place, at in enumerate(free) if found[place] * (1 if SIGNS[at] == "alike" else -1) < 0}
        if not wrong - dropped:
            return found
        dropped |= wrong


def _newton(table: Array, same: NDArray[np.bool_], held: Array, balance: Array) -> Array:
    found = np.zeros(table.shape[1])
    penalty = np.full(table.shape[1], RIDGE / max(1, len(same)))
    penalty[-1] = 0.0
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(held + table @ found, -40, 40)))
        slope = table.T @ (balance * (chance - same)) + penalty * found
        curve = (table * (balance * chance * (1 - chance))[:, None]).T @ table + np.diag(penalty + 1e-9)
        step = np.linalg.solve(curve, slope)
        found = found - step
        if np.abs(step).max() < 1e-8:
            break
    return found


def scores(cases: Sequence[Judged], weights: Weights) -> Array:
    """The log-odds of each pair, REFUSED where a guard forbids it."""
    odds = [weights.log_odds(case.signs, case.similarity) if case.refusal is None else REFUSED for case in cases]
    return np.array(odds)


def nested(cases: Sequence[Judged], *, category: bool = False) -> Array:
    """The score of each pair by weights fitted without its question; with `category` also without its kind of trap."""
    folds = np.array([fold(case.pair.a, FOLDS) for case in cases])
    made = np.full(len(cases), REFUSED)
    for at in range(FOLDS):
        kinds = sorted({case.pair.category for case in cases}) if category else [""]
        for kind in kinds:
            held = [folds[n] == at and (not category or case.pair.category == kind) for n, case in enumerate(cases)]
            trap = category and any(case.pair.category == kind and not case.pair.same for case in cases)
            rest = [
                case for n, case in enumerate(cases) if folds[n] != at and not (trap and case.pair.category == kind)
            ]
            made[np.array(held)] = scores([case for case, out in zip(cases, held, strict=True) if out], fit(rest))
    return made
