"""Who asks what: questions of public data with their labels, and requests that repeat them, the same for a seed.

A new question is drawn from six sources in fixed shares. Simple, 60%: nq_open_oracle (one passage has the answer),
banking77 and clinc150 (one request of one intent, each as often as its intent is in the data), and fow_cache (short
customer questions). Hard, 40%: hotpot100 (the answer needs facts of two documents) and medical_question_pairs (a case
is told and advice is asked). A repeat is drawn from the questions that have been asked already, the first one most
often (Zipf, exponent 1.0 over the order of their first asking). Half of the repeats use the same words, half the
labelled paraphrase: pairs that doctors judged the same (medical_question_pairs), or that fow_cache labels so. A
paraphrase is asked once, as long as the data has another.
"""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from hasten.messages.retrieve import Document
from loadtest.pairs import DataError, banking77, clinc150, fold, fow_cache, medical

SHARES = {"nq": 0.20, "fow": 0.16, "banking77": 0.12, "clinc150": 0.12, "medical": 0.35, "hotpot": 0.05}
HARD = ("medical", "hotpot")
ZIPF = 1.0
TEST, TRAIN = 1, 0
"""Halves of the questions: parameters were chosen on half 0, here and where the services' own came from."""
Kind = Literal["new", "exact", "paraphrase"]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question and what is known of it.

    `other` is a labelled paraphrase, `label` its intent. Its evidence is in a prompt when any of `answers` is there and
    all of `sentences` are; without both nothing is known of it.
    """

    id: str
    source: str
    text: str
    other: str = ""
    label: str = ""
    answers: list[str] = []
    sentences: list[str] = []

    @property
    def simple(self) -> bool:
        """Whether the small model is good enough, by the source."""
        return self.source not in HARD

    @property
    def has_evidence(self) -> bool:
        """Whether it is known what must stay in its prompt."""
        return bool(self.answers or self.sentences)

    def evidence_in(self, prompt: str) -> bool:
        """Whether all that the answer needs is in a prompt, but for the question."""
        text = _plain(prompt)
        any_answer = not self.answers or any(_plain(answer) in text for answer in self.answers)
        return any_answer and all(_plain(sentence) in text for sentence in self.sentences)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One asking of a question in these words."""

    question: Question
    text: str
    kind: Kind


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def questions(data: Path, half: int) -> dict[str, list[Question]]:
    """The questions of a half by source, in an order of chance that is always the same; raises DataError.

    fow_cache is too small to be halved, and the cache's verifier was fitted on it: its part is told apart in reports.
    """
    found = {
        "nq": _nq(data),
        "hotpot": _hotpot(data),
        "medical": [_pair("medical", one.a, one.b) for one in medical(data) if one.same],
        "fow": [_pair("fow", one.a, one.b) for one in fow_cache(data) if one.same],
        "banking77": [_intent("banking77", one.text, one.label) for one in banking77(data)],
        "clinc150": [_intent("clinc150", one.text, one.label) for one in clinc150(data)],
    }
    taken: set[str] = set()
    made: dict[str, list[Question]] = {}
    for source, some in found.items():
        kept: list[Question] = []
        for one in some:
            words = {_plain(one.text), _plain(one.other)} - {""}
            if (source == "fow" or fold(one.text, 2) == half) and not words & taken:
                taken |= words
                kept.append(msgspec.structs.replace(one, id=f"{source}-{len(kept)}"))
        random.Random(f"order {source}").shuffle(kept)
        made[source] = kept
    return made


def documents(data: Path, half: int) -> list[Document]:
    """The documents of a half's questions: each gold passage of nq_open_oracle, and all of hotpot100's ten."""
    made = {}
    for row in _rows(data, "nq_open_oracle", "nq-open-oracle.jsonl"):
        if fold(row["question"], 2) == half:
            for passage in row["ctxs"]:
                made[passage["title"], passage["text"]] = passage["text"]
    for row in _rows(data, "hotpot100", "hotpot100.jsonl"):
        if fold(row["question"], 2) == half:
            for title, sentences in zip(row["context"]["title"], row["context"]["sentences"], strict=True):
                made[title, "".join(sentences)] = "".join(sentences)
    return [
        Document(id=f"d{at}", title=title, text=text, media_type="text/plain")
        for at, ((title, _), text) in enumerate(made.items())
    ]


def requests(
    pool: dict[str, list[Question]],
    count: int,
    repeats: float,
    seed: int,
    sources: Mapping[str, float] = SHARES,
) -> list[Request]:
    """`count` requests of which a share repeats a question asked before; raises DataError when the pool is too small.

    The shares, also those of the `sources` of new questions, are exact up to rounding.
    """
    draw = random.Random(f"requests {seed}")
    repeated = round(count * repeats)
    kinds = ["new"] * (count - repeated) + ["exact"] * (repeated - repeated // 2) + ["paraphrase"] * (repeated // 2)
    draw.shuffle(kinds)
    fresh = iter(_new(pool, count - repeated, draw, sources))
    asked: list[Question] = []
    said: set[str] = set()
    made = []
    while kinds:
        kind = kinds.pop(_possible(kinds, asked))
        if kind == "new":
            question = next(fresh)
            asked.append(question)
            made.append(Request(question=question, text=question.text, kind="new"))
        elif kind == "exact":
            question = _zipf(asked, asked, draw)
            made.append(Request(question=question, text=question.text, kind="exact"))
        else:
            others = [one for one in asked if one.other]
            question = _zipf(asked, [one for one in others if one.id not in said] or others, draw)
            said.add(question.id)
            made.append(Request(question=question, text=question.other, kind="paraphrase"))
    return made


def _possible(kinds: Sequence[str], asked: Sequence[Question]) -> int:
    """The first kind that can be made of what has been asked."""
    able = {"new"} | ({"exact"} if asked else set()) | ({"paraphrase"} if any(one.other for one in asked) else set())
    return next(at for at, kind in enumerate(kinds) if kind in able)


def _zipf(asked: Sequence[Question], among: Sequence[Question], draw: random.Random) -> Question:
    rank = {one.id: at + 1 for at, one in enumerate(asked)}
    return draw.choices(among, [rank[one.id] ** -ZIPF for one in among])[0]


def _new(
    pool: dict[str, list[Question]], count: int, draw: random.Random, sources: Mapping[str, float]
) -> list[Question]:
    """`count` different questions in the shares of their sources, in an order of chance."""
    counts = {source: int(share * count) for source, share in sources.items()}
    rest = sorted(sources, key=lambda source: counts[source] - sources[source] * count)
    for source in rest[: count - sum(counts.values())]:
        counts[source] += 1
    for source, wanted in counts.items():
        if len(pool[source]) < wanted:
            raise DataError(f"{source} has {len(pool[source])} questions, {wanted} are needed: ask for less at once")
    made = [one for source, wanted in counts.items() for one in pool[source][:wanted]]
    draw.shuffle(made)
    return made


def _pair(source: str, a: str, b: str) -> Question:
    return Question(id="", source=source, text=a, other=b)


def _intent(source: str, text: str, label: str) -> Question:
    return Question(id="", source=source, text=text, label=label)


def _nq(data: Path) -> list[Question]:
    rows = _rows(data, "nq_open_oracle", "nq-open-oracle.jsonl")
    return [Question(id="", source="nq", text=row["question"], answers=row["answers"]) for row in rows]


def _hotpot(data: Path) -> list[Question]:
    made = []
    for row in _rows(data, "hotpot100", "hotpot100.jsonl"):
        texts = dict(zip(row["context"]["title"], row["context"]["sentences"], strict=True))
        facts = zip(row["supporting_facts"]["title"], row["supporting_facts"]["sent_id"], strict=True)
        needed = [texts[title][number].strip() for title, number in facts if number < len(texts[title])]
        made.append(Question(id="", source="hotpot", text=row["question"], sentences=needed))
    return made


def _rows(data: Path, folder: str, name: str) -> list[dict[str, Any]]:
    path = data / folder / name
    if not path.exists():
        raise DataError(f"{path} is not there")
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
