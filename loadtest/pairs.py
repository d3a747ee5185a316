"""Reads the public data sets as pairs of questions, questions with labels, and pairs of conversations."""

import csv
import hashlib
import json
import zlib
from pathlib import Path

import msgspec


class DataError(ValueError):
    """The file cannot be used; the text says which and why."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two questions and whether one answer does for both."""

    a: str
    b: str
    same: bool
    category: str = ""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: str
    content: str


class Talks(msgspec.Struct, frozen=True, kw_only=True):
    """Two conversations and whether one answer does for the last message of both."""

    a: list[Turn]
    b: list[Turn]
    same: bool


class Labelled(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its topic."""

    text: str
    label: str


class _Fow(msgspec.Struct):
    a: str
    b: str
    same_answer: bool
    category: str = ""


class _FowTalks(msgspec.Struct):
    a: list[Turn]
    b: list[Turn]
    same_answer: bool


def fow_cache(folder: Path) -> list[Pair]:
    """fow_cache's single questions."""
    lines = [msgspec.json.decode(line, type=_Fow) for line in _lines(folder / "fow_cache" / "pairs.jsonl")]
    return [Pair(a=one.a, b=one.b, same=one.same_answer, category=one.category) for one in lines]


def medical(folder: Path) -> list[Pair]:
    """medical_question_pairs: number of the first question, both questions, 1 for the same."""
    rows = csv.reader(_there(folder / "medical_question_pairs" / "mqp.csv").read_text().splitlines())
    return [Pair(a=row[1], b=row[2], same=row[3] == "1") for row in rows if len(row) > 3 and row[3] in ("0", "1")]


def talks(folder: Path, part: str) -> list[Talks]:
    """fow_cache's conversations of one part, `conv-parts` or `conv-long`, all subjects."""
    files = sorted(_there(folder / "fow_cache" / part).glob("*.jsonl"))
    lines = [msgspec.json.decode(line, type=_FowTalks) for file in files for line in _lines(file)]
    return [Talks(a=one.a, b=one.b, same=one.same_answer) for one in lines]


def banking77(folder: Path) -> list[Labelled]:
    """banking77's customer questions."""
    files = [file for name in ("train", "test") if (file := folder / "banking77" / f"{name}.csv").exists()]
    if not files:
        raise DataError(f"{folder / 'banking77'} has no train.csv or test.csv")
    rows = [row for file in files for row in csv.reader(file.read_text().splitlines()[1:])]
    return [Labelled(text=row[0].strip(), label=row[1]) for row in rows]


def clinc150(folder: Path) -> list[Labelled]:
    """clinc150's requests of 150 intents, without those out of scope."""
    whole = json.loads(_there(folder / "clinc150" / "data_full.json").read_text())
    parts = [rows for name, rows in sorted(whole.items()) if not name.startswith("oos")]
    return [Labelled(text=text, label=label) for rows in parts for text, label in rows]


def mark(pair: Pair) -> str:
    """A short hash of a pair, by which it is known again and not read."""
    return hashlib.sha256("\n".join(sorted((pair.a, pair.b))).encode()).hexdigest()[:8]


def fold(text: str, folds: int) -> int:
    """In which of `folds` parts a question belongs: the same everywhere, and for all pairs of that question."""
    return zlib.crc32(" ".join(text.lower().split()).encode()) % folds


def _there(path: Path) -> Path:
    if not path.exists():
        raise DataError(f"{path} is not there")
    return path


def _lines(path: Path) -> list[bytes]:
    return [line for line in _there(path).read_bytes().splitlines() if line.strip()]
