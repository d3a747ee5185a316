"""How good an order of passages is for a question whose answers' places are known; pure."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from hasten.messages.retrieve import Passage
from loadtest.retrieval_sets import Place

CHARS = 4000
"""The budget of what is read, in characters."""
DRAWS = 2000


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one question, or the means of many. `recall` is by how many passages are read; the last three are of the first
    4,000 characters against the exact spans, and None where only whole documents are known to answer."""

    recall_1: float
    recall_5: float
    recall_10: float
    ndcg_10: float
    mrr: float
    chars_recall: float | None = None
    chars_precision: float | None = None
    chars_iou: float | None = None


def judged(passages: Sequence[Passage], gold: Sequence[Place], *, spans: bool) -> Figures:
    """The figures of an order, best first."""
    met = [{at for at, place in enumerate(gold) if _meets(one, place)} for one in passages]
    chars = characters(passages, gold) if spans else (None, None, None)
    return Figures(
        recall_1=recall(met, len(gold), 1),
        recall_5=recall(met, len(gold), 5),
        recall_10=recall(met, len(gold), 10),
        ndcg_10=ndcg(met, len(gold), 10),
        mrr=next((1 / place for place, found in enumerate(met, 1) if found), 0.0),
        chars_recall=chars[0],
        chars_precision=chars[1],
        chars_iou=chars[2],
    )


def _meets(passage: Passage, place: Place) -> bool:
    if passage.document != place.document:
        return False
    return place.end < 0 or (passage.start < place.end and place.start < passage.end)


def recall(met: Sequence[set[int]], wanted: int, count: int) -> float:
    """The share of the wanted places that the first `count` passages meet; `met` are the places of each passage."""
    return len(set[int]().union(*met[:count])) / wanted


def ndcg(met: Sequence[set[int]], wanted: int, count: int) -> float:
    """nDCG (Järvelin and Kekäläinen 2002) where a passage gains 1 if it meets a place that none before it met."""
    seen, gained = set[int](), 0.0
    for place, found in enumerate(met[:count]):
        if found - seen:
            gained += 1 / math.log2(place + 2)
        seen |= found
    return gained / sum(1 / math.log2(place + 2) for place in range(min(wanted, count)))


def characters(passages: Sequence[Passage], gold: Sequence[Place], budget: int = CHARS) -> tuple[float, float, float]:
    """Recall, precision and intersection over union of what is read within the budget, the last passage cut."""
    read, wanted = set[tuple[str, int]](), set[tuple[str, int]]()
    left = budget
    for one in passages:
        end = min(one.end, one.start + left)
        read |= {(one.document, at) for at in range(one.start, end)}
        left -= end - one.start
    for place in gold:
        wanted |= {(place.document, at) for at in range(place.start, place.end)}
    both = len(read & wanted)
    return both / len(wanted), both / max(1, len(read)), both / len(read | wanted)


def mean(rows: Sequence[Figures]) -> Figures:
    """The means; raises ZeroDivisionError without rows."""
    made: dict[str, float | None] = {}
    for name in Figures.__struct_fields__:
        values = [value for row in rows if (value := getattr(row, name)) is not None]
        made[name] = round(sum(values) / len(values), 4) if len(values) == len(rows) else None
    return msgspec.convert(made, Figures)


def gain(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """The mean difference of the same questions, and its 95% interval by a paired bootstrap (fixed seed)."""
    apart = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    drawn = np.random.default_rng(0).integers(0, len(apart), (DRAWS, len(apart)))
    low, high = np.percentile(apart[drawn].mean(axis=1), [2.5, 97.5])
    return round(float(apart.mean()), 4), round(float(low), 4), round(float(high), 4)
