"""How likely two questions that no guard forbids are the same: a logistic function of a few figures; pure.

Its weights are in `verifier.json` beside this file, with the report of their training (`loadtest.train_verifier`).
"""

import math
from functools import cache
from importlib import resources

import msgspec

from hasten.cache.guards import Reading
from hasten.cache.signs import Signs, signs

AT = 0.8
"""The cosine similarity from which `Weights.similarity` counts."""
SIGNS = Signs.__struct_fields__


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """What each sign adds to the log-odds, per unit; `similarity` per unit of cosine above AT."""

    bias: float
    similarity: float
    near: float
    things: float
    whether: float
    aspect: float
    denial: float
    alike: float

    def log_odds(self, found: Signs, similarity: float) -> float:
        """The log-odds that two questions with these signs and this cosine similarity are the same."""
        told = sum(getattr(self, name) * getattr(found, name) for name in SIGNS)
        return float(self.bias + self.similarity * (similarity - AT) + told)

    def confidence(self, left: Reading, right: Reading, similarity: float) -> float:
        """From 0 to 1; the same either way round. It says nothing about what a guard forbids."""
        return logistic(self.log_odds(signs(left, right), similarity))

    def most(self, similarity: float) -> float:
        """The confidence that no question of this similarity exceeds, whatever its words."""
        return logistic(self.log_odds(Signs(alike=1.0), similarity))


class Artefact(msgspec.Struct, frozen=True, kw_only=True):
    """The file: the weights, and what they were trained and measured on."""

    weights: Weights
    report: dict[str, object] = {}


def logistic(odds: float) -> float:
    """The probability of these log-odds."""
    return 1 / (1 + math.exp(-odds)) if odds > 0 else math.exp(odds) / (1 + math.exp(odds))


@cache
def shipped() -> Artefact:
    """The artefact of this package."""
    return msgspec.json.decode(resources.files("hasten.cache").joinpath("verifier.json").read_bytes(), type=Artefact)
