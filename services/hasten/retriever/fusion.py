"""Joins what was found by meaning and what was found by words into one order; pure.

Both searches are made by us and joined here, so that every store gives the same order and each branch has its filter.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

Method = Literal["scores", "ranks"]
K = 60
"""Of reciprocal ranks: how little the first places differ (Cormack, Clarke and Büttcher 2009)."""


class Blend(msgspec.Struct, frozen=True, kw_only=True):
    """How much words count: `weight`, or what `weights` says of `<tenant>/<collection>` or `<collection>`."""

    weight: float = 0.3
    weights: dict[str, float] = {}
    method: Method = "scores"

    def of(self, tenant: str, collection: str) -> float:
        """The weight in one collection."""
        return self.weights.get(f"{tenant}/{collection}", self.weights.get(collection, self.weight))


def fused(
    dense: Mapping[str, float], lexical: Mapping[str, float], weight: Callable[[str], float], method: Method = "scores"
) -> dict[str, float]:
    """The ids of both with their joint scores, best first; scores are those of one search.

    `dense` are cosines, `lexical` BM25 scores; `weight(id)`, from 0 to 1, is how much words count for that one. With
    weight 0 for all it is the dense order, with 1 the lexical one, each followed by what only the other found.
    `scores` adds up both scores, each as a share of its best one; a cosine begins to count at the least one found, and
    what a search did not find has 0 there. `ranks` adds up reciprocal ranks.
    """
    share = _places if method == "ranks" else _shares
    near, worded = share(dense, min(dense.values(), default=0.0)), share(lexical, 0.0)
    joint = {
        id_: (1 - weight(id_)) * near.get(id_, 0.0) + weight(id_) * worded.get(id_, 0.0) for id_ in (near | worded)
    }
    return dict(sorted(joint.items(), key=lambda item: (-item[1], -dense.get(item[0], -1.0), item[0])))


def _shares(scores: Mapping[str, float], floor: float) -> dict[str, float]:
    width = max(scores.values(), default=0.0) - floor
    return {id_: (score - floor) / width if width > 0 else 1.0 for id_, score in scores.items()}


def _places(scores: Mapping[str, float], _: float) -> dict[str, float]:
    order = sorted(scores, key=lambda id_: (-scores[id_], id_))
    return {id_: (K + 1) / (K + 1 + place) for place, id_ in enumerate(order)}
