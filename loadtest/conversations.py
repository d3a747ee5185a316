"""Reads public conversations with what a last question needs of them: meetings of QMSum, long chats of fow_cache."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hasten.messages.chat import Turn
from loadtest.pairs import DataError

PER_MEETING = 3


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that ends with a question, and the indices of the turns that its answer is in. `group` numbers the
    meeting or the pair of chats: what is fitted on one half of the groups is measured on the other."""

    group: int
    turns: list[Turn]
    gold: list[int]


def meetings(folder: Path, per_meeting: int = PER_MEETING) -> list[Asked]:
    """The first questions about each meeting. Its speakers take turns as user and assistant, with their names."""
    return [
        one
        for group, row in enumerate(_rows(folder / "qmsum" / "val.jsonl"))
        for one in _asked(group, row, per_meeting)
    ]


def _asked(group: int, row: dict[str, Any], most: int) -> Iterator[Asked]:
    said = [f"{turn['speaker']}: {turn['content']}" for turn in row["meeting_transcripts"]]
    turns = [Turn(role=("user", "assistant")[at % 2], content=text) for at, text in enumerate(said)]
    spans = [query for query in row["specific_query_list"] if query["relevant_text_span"]]
    for query in spans[:most]:
        gold = {at for first, last in query["relevant_text_span"] for at in range(int(first), int(last) + 1)}
        last = Turn(role="user", content=query["query"])
        yield Asked(group=group, turns=[*turns, last], gold=sorted(at for at in gold if at < len(turns)))


def chats(folder: Path) -> list[Asked]:
    """Both chats of each pair: they end alike and mean something else, by the turns that are not in the other."""
    found = []
    rows = [
        row for name in ("billing", "retail") for row in _rows(folder / "fow_cache" / "conv-long" / f"{name}.jsonl")
    ]
    for group, row in enumerate(rows):
        for mine, other in (("a", "b"), ("b", "a")):
            turns = [Turn(role=turn["role"], content=turn["content"]) for turn in row[mine]]
            theirs = {turn["content"] for turn in row[other]}
            gold = [at for at, turn in enumerate(turns[:-1]) if turn.content not in theirs]
            found.append(Asked(group=group, turns=turns, gold=gold))
    return [one for one in found if one.gold]


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise DataError(f"{path} is not there")
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except ValueError:
        raise DataError(f"{path} is not JSON in lines") from None
