"""Questions with the passage that answers each, and near passages that do not: what a reranker learns from."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

Embed = Callable[[list[str]], Any]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question, the passage that answers it, and the answers' words. `group` is kept together by a split."""

    question: str
    passage: str
    answers: list[str]
    group: str


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A question with its nearest passages, nearest first, their cosines, and which of them answers it (-1: none)."""

    question: str
    passages: list[str]
    cosines: list[float]
    right: int


def kept_out(group: str) -> bool:
    """Whether a question, or all that are asked of one text, is measured on and never trained on: every second."""
    return hashlib.sha256(group.encode()).digest()[0] % 2 == 1


def tuned_on(group: str) -> bool:
    """Whether a kept-out question is for choosing settings; the others are for saying what these have brought."""
    return hashlib.sha256(group.encode()).digest()[1] % 2 == 1


def nq_open(folder: Path) -> list[Asked]:
    """nq_open_oracle: web searches, each with its paragraph of Wikipedia; a split goes by question."""
    rows = map(json.loads, (folder / "nq_open_oracle" / "nq-open-oracle.jsonl").read_text().splitlines())
    return [
        Asked(question=asked, passage=f"{one['title']}\n{one['text']}", answers=row["answers"], group=asked)
        for row in rows
        for asked, one in [(row["question"], row["ctxs"][0])]
    ]


def xquad(folder: Path) -> list[Asked]:
    """XQuAD in English: questions about paragraphs of Wikipedia; a split goes by paragraph."""
    articles = json.loads((folder / "xquad_en" / "xquad.en.json").read_text())["data"]
    return [
        Asked(question=one["question"], passage=text, answers=[answer["text"] for answer in one["answers"]], group=text)
        for article in articles
        for paragraph in article["paragraphs"]
        for text in [paragraph["context"]]
        for one in paragraph["qas"]
    ]


SETS: dict[str, Callable[[Path], list[Asked]]] = {"nq_open_oracle": nq_open, "xquad": xquad}


def groups(asked: list[Asked], count: int, embed: Embed) -> list[Group]:
    """Each question with the `count` nearest of all these passages, without others that hold its answer."""
    passages = list(dict.fromkeys(one.passage for one in asked))
    vectors, wanted = embed(passages), embed([one.question for one in asked])
    return [_group(one, passages, vectors @ wanted[at], count) for at, one in enumerate(asked)]


def _group(one: Asked, passages: list[str], cosines: Any, count: int) -> Group:
    near: list[int] = []
    for at in np.argsort(-cosines):
        text = passages[at]
        if text == one.passage or not any(answer.lower() in text.lower() for answer in one.answers):
            near.append(int(at))
        if len(near) == count:
            break
    found = [passages[at] for at in near]
    return Group(
        question=one.question,
        passages=found,
        cosines=[float(cosines[at]) for at in near],
        right=found.index(one.passage) if one.passage in found else -1,
    )
