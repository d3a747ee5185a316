"""Reads questions that a weak and a strong model have answered, and other kinds of text, from public data sets."""

import csv
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import msgspec

from loadtest.pairs import DataError, banking77, clinc150, fold, medical, talks

WEAK, STRONG = "mistralai/Mixtral-8x7B-Instruct-v0.1", "gpt-4-1106-preview"
_SAMPLE = 300
"""How many texts of every other kind are looked at."""


class Graded(msgspec.Struct, frozen=True, kw_only=True):
    """A question, its data set and subject, and whether each of the two models answered it right."""

    text: str
    data: str
    subject: str
    weak: bool
    strong: bool

    @property
    def gain(self) -> int:
        """1 where only the strong model is right, -1 where only the weak one is."""
        return self.strong - self.weak


def graded(folder: Path) -> dict[str, list[Graded]]:
    """routellm_evals by data set (`mmlu`, `gsm8k`), each question once; raises DataError.

    Prompts that are listed as contaminated are left out, as the published figures do.
    """
    home = folder / "routellm_evals"
    files = {
        "mmlu": sorted((home / "mmlu" / "responses").glob("mmlu_*.csv")),
        "gsm8k": sorted((home / "gsm8k").glob("gsm8k_responses.csv")),
    }
    found = {}
    for name, paths in files.items():
        left_out = _contaminated(home / name / "contaminated_prompts.jsonl")
        rows = [row for path in paths for row in _rows(path, name)]
        once = {row.text: row for row in rows if row.text not in left_out}
        if once:
            found[name] = list(once.values())
    if not found:
        raise DataError(f"{home} has neither mmlu/responses/mmlu_*.csv nor gsm8k/gsm8k_responses.csv")
    return found


def _rows(path: Path, data: str) -> list[Graded]:
    subject = path.stem.removeprefix("mmlu_").removesuffix("_responses")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if rows and not {"prompt", WEAK, STRONG} <= set(rows[0]):
        raise DataError(f"{path} lacks one of the columns prompt, {WEAK}, {STRONG}")
    return [
        Graded(text=row["prompt"], data=data, subject=subject, weak=row[WEAK] == "True", strong=row[STRONG] == "True")
        for row in rows
    ]


def _contaminated(path: Path) -> set[str]:
    if not path.exists():
        return set()
    return {json.loads(line)["eval_prompt"] for line in path.read_text(encoding="utf-8").splitlines() if line.strip()}


def _xquad(folder: Path) -> dict[str, list[str]]:
    """The questions of XQuAD by language, from `xquad.<language>.json` in any folder named xquad*."""
    found = {}
    for path in sorted(folder.glob("xquad*/xquad.*.json")):
        articles = json.loads(path.read_text(encoding="utf-8"))["data"]
        asked = [one["question"] for article in articles for part in article["paragraphs"] for one in part["qas"]]
        found[f"xquad ({path.suffixes[-2].removeprefix('.')})"] = asked
    if not found:
        raise DataError(f"{folder} has no xquad*/xquad.<language>.json")
    return found


def _lines(path: Path) -> list[str]:
    if not path.exists():
        raise DataError(f"{path} is not there")
    return path.read_text(encoding="utf-8").splitlines()


def _nq(folder: Path) -> list[str]:
    return [json.loads(line)["question"] for line in _lines(folder / "nq_open_oracle" / "nq-open-oracle.jsonl")]


def _meetings(folder: Path) -> list[str]:
    lines = _lines(folder / "qmsum" / "val.jsonl")
    return [one["query"] for line in lines for one in json.loads(line)["specific_query_list"]]


def _chat(folder: Path) -> list[str]:
    cases = [case for part in ("conv-parts", "conv-long") for case in talks(folder, part)]
    return [turn.content for case in cases for turn in case.a if turn.role == "user"]


def _named(name: str, texts: list[str] | dict[str, list[str]]) -> dict[str, list[str]]:
    return texts if isinstance(texts, dict) else {name: texts}


_OTHERS: dict[str, Callable[[Path], list[str] | dict[str, list[str]]]] = {
    "banking77 (customers)": lambda folder: [one.text for one in banking77(folder)],
    "clinc150 (commands)": lambda folder: [one.text for one in clinc150(folder)],
    "medical_question_pairs (patients)": lambda folder: [one.a for one in medical(folder)],
    "fow_cache (chat turns)": _chat,
    "nq_open (web searches)": _nq,
    "qmsum (about meetings)": _meetings,
    "xquad": _xquad,
}


def others(folder: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Texts of other kinds by name, the same sample each time, and what is missing with the reason."""
    found: dict[str, list[str]] = {}
    skipped = []
    for name, read in _OTHERS.items():
        try:
            found |= _named(name, read(folder))
        except (DataError, OSError, ValueError, KeyError) as error:
            skipped.append(f"{name}: {error}")
    return {name: sample(texts) for name, texts in found.items()}, skipped


def sample(texts: list[str]) -> list[str]:
    """Some of the texts, by their hash."""
    return sorted(dict.fromkeys(texts), key=lambda text: (fold(text, 1 << 30), text))[:_SAMPLE]


def mark(text: str) -> str:
    """A short hash of a question, by which it is known again and not read."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:10]
