"""Joins what was found by meaning and what was found by words into one order; pure.

Both searches are made by us and joined here, so that every store gives the same order and each branch has its filter.
"""

from collections.abc import Callable, Mapping

import msgspec

WEIGHT = 0.15
"""How much words count by default. Of the five sets of docs/decisions/0026 none was worse with it than with vectors
alone; reciprocal ranks were worse on one, and on part numbers they found half of what scores find."""


class Blend(msgspec.Struct, frozen=True, kw_only=True):
    """How much words count: `weight`, or what `weights` says of `<tenant>/<collection>` or `<collection>`."""

    weight: float = WEIGHT
    weights: dict[str, float] = {}

    def of(self, tenant: str, collection: str) -> float:
        """The weight in one collection, from 0 (not at all) to 1 (alone)."""
        return self.weights.get(f"{tenant}/{collection}", self.weights.get(collection, self.weight))


def fused(dense: Mapping[str, float], lexical: Mapping[str, float], weight: Callable[[str], float]) -> dict[str, float]:
    """The ids of both with their joint scores, best first: `(1 - weight) × cosine + weight × BM25 / the best BM25`.

    `dense` are cosines, `lexical` BM25 scores, `weight(id)` is how much words count for that one. What only the words
    found is as near as the farthest that was found by meaning, which is the most it can be; what only the meaning
    found has no words. A cosine is taken as it is: stretched to the range that was found, it would outweigh a part
    number among sheets that differ in nothing else.
    """
    best = max(lexical.values(), default=0.0) or 1.0
    farthest = min(dense.values(), default=0.0)
    joint = {
        id_: (1 - weight(id_)) * dense.get(id_, farthest) + weight(id_) * lexical.get(id_, 0.0) / best
        for id_ in dense.keys() | lexical.keys()
    }
    return dict(sorted(joint.items(), key=lambda item: (-item[1], -dense.get(item[0], -1.0), item[0])))
