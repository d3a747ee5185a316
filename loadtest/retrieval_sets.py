"""Reads the public data sets as documents to search and questions whose answers' places in them are known."""

import csv
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hasten.messages.retrieve import Document
from loadtest.rerank_groups import kept_out

MEETINGS = 8
"""Of QMSum: the first ones by a hash of their text. All of them would take four times as long to embed."""


class Place(msgspec.Struct, frozen=True):
    """What answers a question: `text[start:end]` of a document, or all of it (-1)."""

    document: str
    start: int = 0
    end: int = -1


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question for one collection. `group` is kept together by the split."""

    text: str
    collection: str
    gold: list[Place]
    group: str

    @property
    def measured(self) -> bool:
        """Whether it is measured on; the others are for choosing parameters, and for training a reranker."""
        return kept_out(self.group)


class Corpus(msgspec.Struct, frozen=True, kw_only=True):
    """A data set. `documents` are by collection; `spans` says whether the answers' exact places are known."""

    name: str
    documents: dict[str, list[Document]]
    questions: list[Question]
    spans: bool = False


def chunking_eval(folder: Path) -> Corpus:
    """chunking_eval: three long texts in one collection, with the exact stretches that answer each question."""
    files = sorted((folder / "chunking_eval" / "corpora").glob("*.md"))
    documents = [Document(id=one.stem, text=one.read_text(), media_type="text/plain") for one in files]
    names = {one.id for one in documents}
    with (folder / "chunking_eval" / "questions_df.csv").open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["corpus_id"] in names]
    questions = [
        Question(
            text=row["question"],
            collection="all",
            gold=[
                Place(row["corpus_id"], one["start_index"], one["end_index"]) for one in json.loads(row["references"])
            ],
            group=row["question"],
        )
        for row in rows
    ]
    return Corpus(name="chunking_eval", documents={"all": documents}, questions=questions, spans=True)


def nq_open(folder: Path) -> Corpus:
    """nq_open_oracle: web searches, among the passages that answer all of them."""
    rows = _lines(folder / "nq_open_oracle" / "nq-open-oracle.jsonl")
    documents, questions = dict[str, Document](), list[Question]()
    for row in rows:
        one = row["ctxs"][0]
        name = _name(one["title"] + one["text"])
        documents[name] = Document(id=name, title=one["title"], text=one["text"], media_type="text/plain")
        asked = row["question"]
        questions.append(Question(text=asked, collection="all", gold=[Place(name)], group=asked))
    return Corpus(name="nq_open_oracle", documents={"all": list(documents.values())}, questions=questions)


def xquad(folder: Path) -> Corpus:
    """XQuAD in English: questions about paragraphs, among all paragraphs; the split goes by paragraph."""
    articles = json.loads((folder / "xquad_en" / "xquad.en.json").read_text())["data"]
    texts = [(one["context"], one["qas"]) for article in articles for one in article["paragraphs"]]
    return Corpus(
        name="xquad_en",
        documents={"all": [Document(id=_name(text), text=text, media_type="text/plain") for text, _ in texts]},
        questions=[
            Question(text=one["question"], collection="all", gold=[Place(_name(text))], group=text)
            for text, asked in texts
            for one in asked
        ],
    )


def hotpot_own(folder: Path) -> Corpus:
    """hotpot100: the two paragraphs that are needed, among the ten of the question."""
    rows = _hotpot(folder)
    return Corpus(
        name="hotpot100, own ten",
        documents={f"q{at}": _paragraphs([row]) for at, row in enumerate(rows)},
        questions=[_needs(row, f"q{at}") for at, row in enumerate(rows)],
    )


def hotpot_pool(folder: Path) -> Corpus:
    """hotpot100: the two paragraphs that are needed, among those of all questions."""
    rows = _hotpot(folder)
    return Corpus(
        name="hotpot100, pool",
        documents={"all": _paragraphs(rows)},
        questions=[_needs(row, "all") for row in rows],
    )


def _hotpot(folder: Path) -> list[Any]:
    return _lines(folder / "hotpot100" / "hotpot100.jsonl")


def _paragraphs(rows: list[Any]) -> list[Document]:
    found = {
        title: Document(id=title, title=title, text="".join(sentences), media_type="text/plain")
        for row in rows
        for title, sentences in zip(row["context"]["title"], row["context"]["sentences"], strict=True)
    }
    return list(found.values())


def _needs(row: Any, collection: str) -> Question:
    gold = [Place(title) for title in dict.fromkeys(row["supporting_facts"]["title"])]
    return Question(text=row["question"], collection=collection, gold=gold, group=row["question"])


def qmsum(folder: Path) -> Corpus:
    """QMSum: questions about a meeting, among its turns; the split goes by meeting."""
    documents, questions = dict[str, list[Document]](), list[Question]()
    meetings = sorted(_lines(folder / "qmsum" / "val.jsonl"), key=lambda one: _name(json.dumps(one)))[:MEETINGS]
    for meeting in meetings:
        name = _name(json.dumps(meeting))
        text, turns = "", list[tuple[int, int]]()
        for turn in meeting["meeting_transcripts"]:
            start = len(text)
            text += f"{turn['speaker']}: {turn['content']}\n\n"
            turns.append((start, len(text) - 2))
        documents[name] = [Document(id=name, text=text, media_type="text/plain")]
        for asked in meeting["specific_query_list"]:
            spans = [(int(first), min(int(last), len(turns) - 1)) for first, last in asked["relevant_text_span"]]
            gold = [Place(name, turns[first][0], turns[last][1]) for first, last in spans if first <= last]
            questions.append(Question(text=asked["query"], collection=name, gold=gold, group=name))
    return Corpus(name="qmsum", documents=documents, questions=[one for one in questions if one.gold], spans=True)


SETS: dict[str, Callable[[Path], Corpus]] = {
    "chunking_eval": chunking_eval,
    "nq_open_oracle": nq_open,
    "xquad_en": xquad,
    "hotpot100, own ten": hotpot_own,
    "hotpot100, pool": hotpot_pool,
    "qmsum": qmsum,
}


def corpora(folder: Path) -> tuple[list[Corpus], list[str]]:
    """The data sets that are there, and why the others are left out."""
    found, skipped = list[Corpus](), list[str]()
    for name, reading in SETS.items():
        try:
            corpus = reading(folder)
        except OSError as error:
            skipped.append(f"{name}: {error.filename} is not there")
            continue
        except (ValueError, KeyError, IndexError, TypeError) as error:
            skipped.append(f"{name}: the file cannot be read as this data set ({type(error).__name__})")
            continue
        if corpus.questions:
            found.append(corpus)
        else:
            skipped.append(f"{name}: it holds no questions with their places")
    return found, skipped


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
