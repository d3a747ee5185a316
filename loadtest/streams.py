"""Labelled questions asked one after the other, each looked up among those before it as the cache would."""

import random
from collections import Counter
from collections.abc import Callable

import numpy as np

from hasten.cache.guards import Reading
from hasten.cache.judgement import judged
from hasten.cache.lookup import unsuited
from hasten.cache.settings import Settings
from hasten.cache.verifier import Weights
from loadtest.curve import Point
from loadtest.embedding import Vectors
from loadtest.pairs import Labelled

ASKED = 1500
Serves = Callable[[int, int, float], bool]


def sample(lines: list[Labelled], seed: int = 0) -> list[Labelled]:
    """ASKED of the questions, in a random order that is always the same."""
    return random.Random(seed).sample(lines, min(ASKED, len(lines)))


def stream(lines: list[Labelled], vectors: Vectors, serves: Serves, candidates: int) -> Point:
    """Asks each question against those before it: the first of the nearest that is served. A hit on another label is
    wrong; answerable are the questions whose label has been asked about before."""
    matrix = np.stack([vectors[line.text] for line in lines])
    seen: Counter[str] = Counter()
    right = wrong = answerable = 0
    for at, line in enumerate(lines):
        answerable += seen[line.label] > 0
        seen[line.label] += 1
        similar = matrix[:at] @ matrix[at]
        nearest = np.argsort(-similar)[:candidates]
        hit = next((int(near) for near in nearest if serves(at, int(near), float(similar[near]))), None)
        if hit is not None:
            right += lines[hit].label == line.label
            wrong += lines[hit].label != line.label
    return Point(threshold=None, right=right, wrong=wrong, answerable=answerable, traps=0)


def as_cache(lines: list[Labelled], settings: Settings, weights: Weights) -> Serves:
    """What the cache does with a neighbour."""
    readings = [Reading(line.text) for line in lines]
    suited = [unsuited(line.text, reading, settings) is None for line, reading in zip(lines, readings, strict=True)]

    def serves(asked: int, stored: int, similarity: float) -> bool:
        if not suited[asked] or not suited[stored] or weights.most(similarity) < settings.threshold:
            return False
        found = judged(readings[asked], readings[stored], similarity, settings.threshold, weights)
        return found.reason is None

    return serves


def by_similarity(threshold: float) -> Serves:
    """Any neighbour of at least this similarity."""
    return lambda _, __, similarity: similarity >= threshold
