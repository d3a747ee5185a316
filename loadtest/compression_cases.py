"""Public data as questions with ranked passages, and the facts that must still be in the prompt."""

import csv
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hasten.messages.retrieve import Document, Passage, Sentence
from hasten.retriever.chunking import Chunk, chunks
from hasten.retriever.records import embedding_text
from loadtest.pairs import DataError

Vectors = NDArray[np.float32]
Encode = Callable[[list[str], list[list[tuple[int, int]]]], tuple[Vectors, list[Vectors]]]
"""Texts with stretches of each, to the unit vectors of the texts and of the stretches."""
Spans = list[tuple[int, int]]
FEW, TOKENS = 20, 8000
_CHARS_PER_TOKEN = 4.3


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """Something the answer needs: one of these texts anywhere, or a stretch of a document."""

    texts: list[str] = []
    document: str = ""
    start: int = 0
    end: int = 0


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A question, its passages with the nearest first, and what is needed of them."""

    question: str
    passages: list[Passage]
    facts: list[Fact]

    @property
    def half(self) -> int:
        """Parameters were chosen on the questions of half 0."""
        return zlib.crc32(" ".join(self.question.lower().split()).encode()) % 2


def holds(kept: dict[str, Spans], case: Case, fact: Fact) -> bool:
    """Whether a fact is in what was kept of each passage (by id, in characters of its document)."""
    parts = [
        (passage, passage.text[start - passage.start : end - passage.start], start, end)
        for passage in case.passages
        for start, end in kept.get(passage.id, [])
    ]
    if fact.texts:
        return any(text.lower() in part.lower() for _, part, _, _ in parts for text in fact.texts)
    covered = sorted((start, end) for passage, _, start, end in parts if passage.document == fact.document)
    at = fact.start
    for start, end in covered:
        if start - at > 2:
            break
        at = max(at, end)
    return at >= fact.end - 2


class Shelf:
    """Documents cut as the retriever cuts them, with the vectors of their chunks and sentences."""

    def __init__(self, name: str, documents: Sequence[Document], encode: Encode, cache: Path | None) -> None:
        self._documents = {document.id: document for document in documents}
        self._chunks = [(one, chunk) for one in documents for chunk in _chunks(one)]
        texts = [embedding_text(one, chunk) for one, chunk in self._chunks]
        spans = [_inside(text, chunk) for text, (_, chunk) in zip(texts, self._chunks, strict=True)]
        self._whole, self._sentences = _cached(name, texts, spans, encode, cache)
        self._of: dict[str, list[int]] = {}
        for at, (one, _) in enumerate(self._chunks):
            self._of.setdefault(one.id, []).append(at)

    def passages(
        self, vector: Vectors, needed: Sequence[Fact], among: set[str], *, most: int, chars: int
    ) -> list[Passage]:
        """The nearest passages of these documents, nearest first, with those that hold what is needed among them."""
        scores = self._whole @ vector
        best: dict[tuple[str, int], float] = {}
        for at, (document, chunk) in enumerate(self._chunks):
            if document.id in among:
                key = (document.id, chunk.passage)
                best[key] = max(best.get(key, -1.0), float(scores[at]))
        wanted = {
            (fact.document, chunk.passage)
            for fact in needed
            for at in self._of.get(fact.document, [])
            if (chunk := self._chunks[at][1]).start < fact.end and chunk.end > fact.start
        }
        ranked = sorted(best, key=lambda key: (key not in wanted, -best[key], key))
        taken, left = [], chars
        for key in ranked[:most]:
            passage = self._passage(key, best[key], vector)
            if left <= 0:
                break
            left -= len(passage.text)
            taken.append(passage)
        return sorted(taken, key=lambda one: -one.score)

    def _passage(self, key: tuple[str, int], score: float, vector: Vectors) -> Passage:
        document = self._documents[key[0]]
        own = [at for at in self._of[key[0]] if self._chunks[at][1].passage == key[1]]
        first = self._chunks[own[0]][1]
        start, end = first.passage_start, first.passage_end
        return Passage(
            id=f"{key[0]}#{key[1]}",
            collection="data",
            document=key[0],
            text=document.text[start:end],
            title=document.title,
            heading=first.heading,
            score=round(score, 6),
            start=start,
            end=end,
            sentences=[
                Sentence(start=span.start - start, end=span.end - start, score=round(float(near), 4))
                for at in own
                for span, near in zip(self._chunks[at][1].sentences, self._sentences[at] @ vector, strict=True)
            ],
        )


def _chunks(document: Document) -> list[Chunk]:
    return chunks(document.text, document.media_type, title=document.title)


def _inside(text: str, chunk: Chunk) -> list[tuple[int, int]]:
    """The sentences of a chunk, as stretches of the text that is embedded, at whose end the chunk stands."""
    shift = len(text) - chunk.end
    return [(one.start + shift, one.end + shift) for one in chunk.sentences]


def _cached(
    name: str, texts: list[str], spans: list[list[tuple[int, int]]], encode: Encode, cache: Path | None
) -> tuple[Vectors, list[Vectors]]:
    told = hashlib.sha256(msgspec.json.encode((texts, spans))).hexdigest()[:16]
    path = cache / f"{name}-{told}.npz" if cache else None
    if path and path.exists():
        with np.load(path) as found:
            whole, flat = found["whole"], found["sentences"]
    else:
        whole, each = encode(texts, spans)
        flat = np.concatenate(each) if each else np.zeros((0, whole.shape[1]), dtype=np.float32)
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, whole=whole, sentences=flat)
    return whole, np.split(flat, np.cumsum([len(one) for one in spans])[:-1])


Read = tuple[list[Document], Callable[[Shelf, Encode], Iterator[Case]]]


def nq(folder: Path, limit: int, *, most: int, chars: int) -> Read:
    """nq_open_oracle: the gold passage among those of other questions that are nearest; the answer must stay."""
    rows = [json.loads(line) for line in _lines(folder / "nq_open_oracle" / "nq-open-oracle.jsonl")]
    ids: dict[tuple[str, str], str] = {}
    for row in rows:
        ids.setdefault((row["ctxs"][0]["title"], row["ctxs"][0]["text"]), f"nq{len(ids)}")
    documents = [Document(id=id_, title=title, text=text) for (title, text), id_ in ids.items()]

    def cases(shelf: Shelf, encode: Encode) -> Iterator[Case]:
        asked = rows[:limit]
        vectors, _ = encode([row["question"] for row in asked], [])
        for row, vector in zip(asked, vectors, strict=True):
            gold = row["ctxs"][0]
            need = [Fact(document=ids[gold["title"], gold["text"]], end=len(gold["text"]))]
            found = shelf.passages(vector, need, set(ids.values()), most=most, chars=chars)
            yield Case(question=row["question"], passages=found, facts=[Fact(texts=row["answers"])])

    return documents, cases


def hotpot(folder: Path, limit: int) -> Read:
    """hotpot100: ten passages, and every supporting sentence must stay."""
    rows = [json.loads(line) for line in _lines(folder / "hotpot100" / "hotpot100.jsonl")][:limit]
    documents = [
        Document(id=f"{at}/{title}", title=title, text="".join(sentences), media_type="text/plain")
        for at, row in enumerate(rows)
        for title, sentences in zip(row["context"]["title"], row["context"]["sentences"], strict=True)
    ]

    def cases(shelf: Shelf, encode: Encode) -> Iterator[Case]:
        vectors, _ = encode([row["question"] for row in rows], [])
        for at, (row, vector) in enumerate(zip(rows, vectors, strict=True)):
            texts = dict(zip(row["context"]["title"], row["context"]["sentences"], strict=True))
            facts = [
                _sentence(f"{at}/{title}", texts[title], number)
                for title, number in zip(
                    row["supporting_facts"]["title"], row["supporting_facts"]["sent_id"], strict=True
                )
                if number < len(texts[title])
            ]
            among = {f"{at}/{title}" for title in texts}
            found = shelf.passages(vector, [], among, most=1000, chars=10**9)
            yield Case(question=row["question"], passages=found, facts=facts)

    return documents, cases


def _sentence(document: str, sentences: list[str], number: int) -> Fact:
    start = sum(map(len, sentences[:number]))
    raw = sentences[number]
    start += len(raw) - len(raw.lstrip())
    return Fact(document=document, start=start, end=start + len(raw.strip()))


def references(folder: Path, limit: int) -> Read:
    """chunking_eval: the nearest passages of a long text, and every reference stretch must stay."""
    base = folder / "chunking_eval"
    rows = list(csv.DictReader(_there(base / "questions_df.csv").read_text().splitlines()))[:limit]
    documents = [
        Document(id=path.stem, title="", text=path.read_text()) for path in sorted((base / "corpora").glob("*.md"))
    ]

    def cases(shelf: Shelf, encode: Encode) -> Iterator[Case]:
        vectors, _ = encode([row["question"] for row in rows], [])
        for row, vector in zip(rows, vectors, strict=True):
            facts = [
                Fact(document=row["corpus_id"], start=one["start_index"], end=one["end_index"])
                for one in json.loads(row["references"])
            ]
            found = shelf.passages(vector, facts, {row["corpus_id"]}, most=1000, chars=int(TOKENS * _CHARS_PER_TOKEN))
            yield Case(question=row["question"], passages=found, facts=facts)

    return documents, cases


def meetings(folder: Path, limit: int) -> Read:
    """qmsum: the nearest passages of a meeting's transcript; the turns that hold the answer must stay."""
    rows = [json.loads(line) for line in _lines(folder / "qmsum" / "val.jsonl")]
    told = [[f"{turn['speaker']}: {turn['content']}" for turn in row["meeting_transcripts"]] for row in rows]
    documents = [
        Document(id=f"meeting{at}", title="", text="\n\n".join(turns), media_type="text/plain")
        for at, turns in enumerate(told)
    ]
    asked = [(at, query) for at, row in enumerate(rows) for query in row["specific_query_list"]][:limit]

    def cases(shelf: Shelf, encode: Encode) -> Iterator[Case]:
        vectors, _ = encode([query["query"] for _, query in asked], [])
        for (at, query), vector in zip(asked, vectors, strict=True):
            facts = [_turn(f"meeting{at}", told[at], turn) for turn in _turns(query, len(told[at]))]
            found = shelf.passages(vector, [], {f"meeting{at}"}, most=1000, chars=10**9)
            yield Case(question=query["query"], passages=found, facts=facts)

    return documents, cases


def _turns(query: dict[str, Any], total: int) -> list[int]:
    spans = query["relevant_text_span"]
    return sorted({turn for first, last in spans for turn in range(int(first), int(last) + 1) if turn < total})


def _turn(document: str, turns: list[str], number: int) -> Fact:
    start = sum(len(turn) + 2 for turn in turns[:number])
    return Fact(document=document, start=start, end=start + len(turns[number].rstrip()))


def _there(path: Path) -> Path:
    if not path.exists():
        raise DataError(f"{path} is not there")
    return path


def _lines(path: Path) -> list[str]:
    return [line for line in _there(path).read_text().splitlines() if line.strip()]


def readers(limit: int) -> dict[str, Callable[[Path], Read]]:
    """The data sets by name."""
    chars = int(TOKENS * _CHARS_PER_TOKEN)
    return {
        "nq, 20 passages": lambda folder: nq(folder, limit, most=FEW, chars=10**9),
        "nq, 8,000 tokens": lambda folder: nq(folder, limit, most=1000, chars=chars),
        "hotpot100": lambda folder: hotpot(folder, limit),
        "chunking_eval, 8,000 tokens": lambda folder: references(folder, limit),
        "qmsum": lambda folder: meetings(folder, limit),
    }
