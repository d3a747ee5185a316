"""Measures the cache's judgement on your own questions: how many it would answer rightly, and how many wrongly.

    python -m hasten.cache.judge questions.jsonl [nats://127.0.0.1:4222]

A line is a pair, {"a": …, "b": …, "same_answer": true}, or a question with its topic, {"text": …, "label": …}. Pairs
are judged one by one. Questions are asked in a shuffled order against all that were asked before, and a hit on another
label counts as wrong. The vectors come from the embedder that runs at the address.
"""

import asyncio
import random
import sys
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from hasten.bus import Bus
from hasten.cache.domain import ALIKE
from hasten.cache.guards import Reading, compared
from hasten.cache.lookup import unsuited
from hasten.cache.settings import Settings
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.failure import Failed

THRESHOLDS = (0.75, 0.8, 0.85, 0.9, 0.95)
BATCH = 64
Vectors = NDArray[np.float32]


class Line(msgspec.Struct, kw_only=True):
    """One line of the file."""

    a: str = ""
    b: str = ""
    same_answer: bool = False
    text: str = ""
    label: str = ""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What one candidate came to: its similarity, whether the answer is right, and whether it is served at all."""

    similarity: float
    right: bool
    served: bool


def table(judgements: list[Judgement], chances: int) -> list[str]:
    """A row per threshold: right hits, their share of `chances`, and wrong hits among all hits."""
    rows = []
    for threshold in THRESHOLDS:
        hits = [one for one in judgements if one.served and one.similarity + ALIKE >= threshold]
        right = sum(one.right for one in hits)
        wrong = len(hits) - right
        share = f"{wrong / len(hits):.2%}" if hits else "-"
        rows.append(
            f"threshold {threshold:.2f}: right {right} ({right / max(1, chances):.1%}), wrong {wrong} ({share} of hits)"
        )
    return rows


def judge_pairs(lines: list[Line], vectors: dict[str, Vectors], settings: Settings, guarded: bool) -> list[Judgement]:
    """Each pair on its own."""
    return [
        Judgement(
            similarity=float(vectors[line.a] @ vectors[line.b]),
            right=line.same_answer,
            served=not guarded or _served(Reading(line.a), Reading(line.b), settings),
        )
        for line in lines
    ]


def _served(left: Reading, right: Reading, settings: Settings) -> bool:
    suited = not unsuited(left.text, left, settings) and not unsuited(right.text, right, settings)
    return suited and compared(left, right) is None


def judge_stream(lines: list[Line], vectors: dict[str, Vectors], settings: Settings, guarded: bool) -> list[Judgement]:
    """Each question against those before it: the first of the nearest that would be served."""
    lines = random.Random(0).sample(lines, len(lines))
    readings = [Reading(line.text) for line in lines]
    suited = np.array([not guarded or not unsuited(reading.text, reading, settings) for reading in readings])
    matrix = np.stack([vectors[line.text] for line in lines])
    found = []
    for at in range(1, len(lines)):
        if not suited[at]:
            continue
        scores = np.where(suited[:at], matrix[:at] @ matrix[at], -1.0)
        for near in np.argsort(-scores)[: settings.candidates]:
            if scores[near] < THRESHOLDS[0]:
                break
            if not guarded or compared(readings[at], readings[near]) is None:
                right = lines[at].label == lines[near].label
                found.append(Judgement(similarity=float(scores[near]), right=right, served=True))
                break
    return found


async def embedded(bus: Bus, texts: list[str]) -> dict[str, Vectors]:
    """The vector of each text, from the embedder; raises Failed."""
    made: dict[str, Vectors] = {}
    for start in range(0, len(texts), BATCH):
        part = texts[start : start + BATCH]
        reply = await bus.request(EMBED, Embed(texts=part), tenant="_judge")
        if not isinstance(reply, Embedded):
            raise Failed.of(reply)
        made |= {text: np.frombuffer(raw, "<f4") for text, raw in zip(part, reply.vectors, strict=True)}
    return made


def read(path: Path) -> list[Line]:
    """The lines of a file."""
    return [msgspec.json.decode(line, type=Line) for line in path.read_bytes().splitlines() if line.strip()]


async def main(lines: list[Line], url: str) -> None:
    """Prints the table without guards and with them."""
    pairs = all(line.a for line in lines)
    bus = await Bus.connect(url, name="hasten-judge")
    vectors = await embedded(bus, sorted({text for line in lines for text in (line.a, line.b, line.text) if text}))
    await bus.close()
    judge, chances = (judge_pairs, sum(line.same_answer for line in lines)) if pairs else (judge_stream, len(lines))
    for guarded in (False, True):
        print(f"{len(lines)} lines, {'as the cache would' if guarded else 'by similarity alone'}")
        print("\n".join(table(judge(lines, vectors, Settings(), guarded), chances)))


if __name__ == "__main__":
    asyncio.run(main(read(Path(sys.argv[1])), sys.argv[2] if len(sys.argv) > 2 else "nats://127.0.0.1:4222"))
