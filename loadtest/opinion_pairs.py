"""Pairs of questions with the word of a person (or of a label) on whether one answer serves both.

fow_cache and medical_question_pairs are judged pair by pair. banking77 and clinc150 have labels only: two questions of
one label count as the same, and the nearest of other labels as different, which is a coarser truth.
"""

import csv
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Embed = Callable[[list[str]], Vectors]
NEAR = 30
"""Among how many nearest neighbours a partner is drawn."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two questions; `source` names the data set."""

    a: str
    b: str
    same: bool
    source: str


def fow_cache(data: Path) -> list[Pair]:
    """Paraphrases and traps, written to look alike."""
    lines = (data / "fow_cache" / "pairs.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    return [Pair(a=row["a"], b=row["b"], same=row["same_answer"], source="fow_cache") for row in rows]


def medical_question_pairs(data: Path) -> list[Pair]:
    """Rewordings and near misses, both written by doctors."""
    name = "medical_question_pairs"
    with (data / name / "mqp.csv").open(newline="") as lines:
        rows = [row for row in csv.reader(lines) if len(row) == 4 and row[0].isdigit()]
    return [Pair(a=row[1], b=row[2], same=row[3] == "1", source=name) for row in rows]


def banking77(data: Path) -> dict[str, list[str]]:
    """Questions by their label."""
    with (data / "banking77" / "train.csv").open(newline="") as lines:
        return _grouped((row["text"], row["category"]) for row in csv.DictReader(lines))


def clinc150(data: Path) -> dict[str, list[str]]:
    """Questions by their label, without those that have none."""
    parts = json.loads((data / "clinc150" / "data_full.json").read_text())
    return _grouped((text, label) for text, label in [*parts["train"], *parts["val"]] if label != "oos")


def _grouped(rows: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    made: dict[str, list[str]] = defaultdict(list)
    for text, label in rows:
        made[label].append(text)
    return dict(made)


def mined(groups: dict[str, list[str]], source: str, count: int, embed: Embed, seed: int = 0) -> list[Pair]:
    """`count` questions, each with one near question of its label and one of another; 2 × `count` pairs at most."""
    chance = random.Random(seed)
    rows = [(text, label) for label, texts in groups.items() for text in texts]
    chance.shuffle(rows)
    rows = rows[: 4 * count]
    vectors = embed([text for text, _ in rows])
    made = []
    for at in range(min(count, len(rows))):
        text, label = rows[at]
        order = [int(near) for near in np.argsort(-(vectors @ vectors[at])) if near != at]
        for same in (True, False):
            near = [one for one in order[: 10 * NEAR] if (rows[one][1] == label) == same][:NEAR]
            if near:
                made.append(Pair(a=text, b=rows[chance.choice(near)][0], same=same, source=source))
    return made


def halves(pairs: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Two halves by the first question, so that no question is on both sides; the same ones every time."""
    firsts = sorted({pair.a for pair in pairs})
    random.Random(1).shuffle(firsts)
    ours = set(firsts[: len(firsts) // 2])
    return [pair for pair in pairs if pair.a in ours], [pair for pair in pairs if pair.a not in ours]
