"""Pairs for training and measuring a second opinion: halves of a judged set, near pairs made of labelled questions."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from loadtest.pairs import Labelled, Pair

Embed = Callable[[list[str]], Any]
NEAR = 30
"""Among how many nearest neighbours a partner is drawn."""


def mined(rows: list[Labelled], count: int, embed: Embed, seed: int = 0) -> list[Pair]:
    """`count` questions, each with one near question of its label and one of another; 2 × `count` pairs at most.

    That two questions of one label ask for the same, and others do not, is a coarser truth than a person's word.
    """
    chance = random.Random(seed)
    rows = chance.sample(rows, min(len(rows), 4 * count))
    vectors = embed([row.text for row in rows])
    made = []
    for at, row in enumerate(rows[:count]):
        order = [int(near) for near in np.argsort(-(vectors @ vectors[at])) if near != at]
        for same in (True, False):
            near = [one for one in order[: 10 * NEAR] if (rows[one].label == row.label) == same][:NEAR]
            if near:
                made.append(Pair(a=row.text, b=rows[chance.choice(near)].text, same=same))
    return made


def halves(pairs: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Two halves by the first question, so that no first question is on both sides; the same ones every time."""
    firsts = sorted({pair.a for pair in pairs})
    random.Random(1).shuffle(firsts)
    ours = set(firsts[: len(firsts) // 2])
    return [pair for pair in pairs if pair.a in ours], [pair for pair in pairs if pair.a not in ours]
