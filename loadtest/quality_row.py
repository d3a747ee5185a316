"""One row of the quality table, and how rows are made of a curve."""

from typing import Any

import msgspec

from loadtest.curve import Array, Flags, Point, at, best, crossed


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one data set.

    `good_hits` are a share of the answerable pairs (for streams: of the questions with an earlier one of their label),
    `wrong_of_hits` a share of all hits, `traps_served` a share of the traps; None where there is no such thing. `ms`
    are p50 and p95 of the judgement on one candidate, without the embedding. `kept_out` says what the method has not
    seen of the pairs that it is measured on.
    """

    data: str
    method: str
    point: str
    kept_out: str
    good_hits: float | None = None
    wrong_of_hits: float | None = None
    traps_served: float | None = None
    right: int | None = None
    wrong: int | None = None
    answerable: int | None = None
    traps: int | None = None
    threshold: float | None = None
    ms: tuple[float, float] | None = None
    shipped: bool = False


def row(data: str, method: str, point: str, kept_out: str, found: Point, **fields: Any) -> Row:
    """The row of a point; without traps, as in streams, their share is left out."""
    hits = found.right + found.wrong
    return Row(
        data=data,
        method=method,
        point=point,
        kept_out=kept_out,
        good_hits=round(found.hit_rate, 4) if found.answerable else None,
        wrong_of_hits=round(found.wrong_rate, 4) if hits else None,
        traps_served=round(found.trap_rate, 4) if found.traps else None,
        right=found.right,
        wrong=found.wrong,
        answerable=found.answerable,
        traps=found.traps or None,
        **{"threshold": None if found.threshold is None else round(found.threshold, 4), **fields},
    )


def along(data: str, method: str, scores: Array, same: Flags, folds: Any, least: float, **fields: Any) -> list[Row]:
    """The rows at ≤1% and ≤5% wrong: with a threshold learnt on the other folds, and with the best in hindsight."""
    made = []
    for error in (0.01, 0.05):
        learnt = crossed(scores, same, folds, error, least)
        made.append(row(data, method, f"≤{error:.0%}, threshold learnt", fields["kept_out"], learnt, ms=fields["ms"]))
        hindsight = best(scores, same, error, least)
        made.append(row(data, method, f"≤{error:.0%}, in hindsight", fields["kept_out"], hindsight, ms=fields["ms"]))
    return made


def fixed(data: str, scores: Array, same: Flags, thresholds: tuple[float, ...], ms: tuple[float, float]) -> list[Row]:
    """Plain thresholds of the similarity."""
    return [
        row(data, "cosine", f"≥ {threshold:.2f}", "nothing fitted", at(scores, same, threshold), ms=ms)
        for threshold in thresholds
    ]
