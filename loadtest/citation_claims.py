"""Sentences that a passage bears out, made of public data, and the same altered so that it does not."""

import ast
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hasten.messages.retrieve import Passage
from hasten.orchestrator.verification.claim import spans

_FIGURE = re.compile(r"(?<![\w.,])\d{1,4}(?:,\d{3})*(?![\w]|[.,]\d)")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{3,}(?: [A-Z][a-z]{2,})?")
_VERB = re.compile(r"\b(is|are|was|were|has|have|had|can|will)\b (?!not\b|n't)")
_ASKS = re.compile(
    r"^(?:who|what|which|where|when|in what year|in which year|how many|how much|how long)\b"
    r"(?: (?:year|city|country|state|person|team|company|day|date))?(?: (?:did|does|do))?",
    re.IGNORECASE,
)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence and the passage that it cites. `kind` is how it was made: supported ones are verbatim, shortened or
    stated (a question with its answer in place of the question word); the others are swapped, figure, name, negated or
    moved (another name of the same passage).
    `row` is the question that it comes from."""

    row: int
    source: str
    kind: str
    said: str
    passage: Passage

    @property
    def supported(self) -> bool:
        """Whether the passage bears it out."""
        return self.kind in ("verbatim", "shortened", "stated")


def cases(folder: Path, limit: int = 500) -> Iterator[Case]:
    """All cases, the same ones each time."""
    row = 0
    for source, facts in (
        ("nq_open_oracle", _nq(folder)),
        ("hotpot100", _hotpot(folder)),
        ("xquad_en", _xquad(folder)),
    ):
        kept = list(facts)[:limit]
        names = [name for _, said, _, _ in kept for name in _NAME.findall(said)]
        for at, (passage, said, stated, others) in enumerate(kept):
            row += 1
            chance = random.Random(row)
            made = {"verbatim": said, "shortened": _shortened(said), "stated": stated}
            for kind, one in made.items():
                if one:
                    yield Case(row=row, source=source, kind=kind, said=one, passage=passage)
            told = _shortened(said) or said
            for kind, altered in (
                ("figure", _figure(told, passage.text, chance)),
                ("name", _name(told, passage, names, chance)),
                ("negated", _negated(told)),
                ("moved", _moved(told, passage, chance)),
            ):
                if altered:
                    yield Case(row=row, source=source, kind=kind, said=altered, passage=passage)
            other = others or kept[(at + 1) % len(kept)][0]
            yield Case(row=row, source=source, kind="swapped", said=told, passage=other)


Fact = tuple[Passage, str, str, Passage | None]
"""A passage, the sentence of it that tells a fact, a statement of that in other words, and a passage that is near."""


def _nq(folder: Path) -> Iterator[Fact]:
    with (folder / "nq_open_oracle" / "nq-open-oracle.jsonl").open() as lines:
        for line in lines:
            row = json.loads(line)
            gold = next((one for one in row["ctxs"] if one.get("isgold")), None)
            answer = next((one for one in row["answers"] if gold and one in gold["text"]), None)
            if gold and answer and (said := _sentence_of(gold["text"], answer)):
                near = next((one for one in row["ctxs"] if not one.get("hasanswer")), None)
                yield _passage(gold), said, _stated(row["question"], answer), _passage(near) if near else None


def _hotpot(folder: Path) -> Iterator[Fact]:
    with (folder / "hotpot100" / "hotpot100.jsonl").open() as lines:
        for line in lines:
            row = json.loads(line)
            context, facts = _plain(row["context"]), _plain(row["supporting_facts"])
            texts = dict(zip(context["title"], context["sentences"], strict=True))
            title, number = facts["title"][0], facts["sent_id"][0]
            if title in texts and number < len(texts[title]):
                near = next(one for one in context["title"] if one not in facts["title"])
                gold = _passage({"title": title, "text": "".join(texts[title])})
                other = _passage({"title": near, "text": "".join(texts[near])})
                yield gold, texts[title][number].strip(), "", other


def _xquad(folder: Path) -> Iterator[Fact]:
    for article in json.loads((folder / "xquad_en" / "xquad.en.json").read_text())["data"]:
        parts = article["paragraphs"]
        for at, part in enumerate(parts):
            near = parts[(at + 1) % len(parts)]["context"] if len(parts) > 1 else ""
            for asked in part["qas"]:
                answer = asked["answers"][0]["text"]
                if said := _sentence_of(part["context"], answer):
                    gold = _passage({"title": "", "text": part["context"]})
                    other = _passage({"title": "", "text": near}) if near else None
                    yield gold, said, _stated(asked["question"], answer), other


def _plain(value: Any) -> dict[str, list[Any]]:
    """A column of hotpot100, which is kept as text."""
    made: dict[str, list[Any]] = ast.literal_eval(value) if isinstance(value, str) else value
    return made


def _passage(row: dict[str, str]) -> Passage:
    return Passage(id=row["title"] or "passage", collection="c", document="d", text=row["text"], title=row["title"])


def _sentence_of(text: str, answer: str) -> str:
    found = (text[start:end] for start, end in spans(text) if answer in text[start:end])
    said = next(found, "")
    return said if 20 <= len(said) <= 400 else ""


def _stated(question: str, answer: str) -> str:
    """The question with its answer in the place of the question word; nothing for one that asks otherwise."""
    asks = _ASKS.match(question)
    return f"{answer}{question[asks.end() :].rstrip(' ?')}." if asks else ""


def _shortened(said: str) -> str:
    """The sentence without what stands in brackets and without its last part behind a comma."""
    plain = re.sub(r"\s*\([^)]*\)", "", said)
    head = plain.rsplit(",", 1)[0]
    kept = head if len(head.split()) >= 6 else plain
    return kept.rstrip(" .") + "." if kept != said else ""


def _figure(said: str, text: str, chance: random.Random) -> str:
    found = list(_FIGURE.finditer(said))
    if not found:
        return ""
    one = chance.choice(found)
    value = int(one[0].replace(",", ""))
    fresh = [value + step for step in (1, 2, 3, 7, -1, -2) if value + step > 0 and str(value + step) not in text]
    return said[: one.start()] + str(chance.choice(fresh)) + said[one.end() :] if fresh else ""


def _name(said: str, passage: Passage, names: list[str], chance: random.Random) -> str:
    found = list(_NAME.finditer(said))
    others = [name for name in names if not any(word in passage.text + passage.title for word in name.split())]
    if not found or not others:
        return ""
    one = chance.choice(found)
    return said[: one.start()] + chance.choice(others) + said[one.end() :]


def _moved(said: str, passage: Passage, chance: random.Random) -> str:
    """Another name of the same passage in place of one: every word of it stands there."""
    found = list(_NAME.finditer(said))
    others = [name for name in dict.fromkeys(_NAME.findall(passage.text)) if name not in said]
    if not found or not others:
        return ""
    one = chance.choice(found)
    return f"{said[: one.start()]}{chance.choice(others)}{said[one.end() :]}"


def _negated(said: str) -> str:
    found = _VERB.search(said)
    return f"{said[: found.end()]}not {said[found.end() :]}" if found else ""
