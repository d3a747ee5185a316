"""The model: facts with versions, when each version became binding, and what is wrong about an answer; pure.

A fact is a row of the database, a document of a tenant, or what an operator has invalidated. Whoever makes an answer
notes the versions of the facts it depends on. A version is binding from some moment on: an answer to whoever asks after
that moment may not be made from an older one. Times are monotonic seconds.
"""

import json
from collections import deque
from typing import Any

import msgspec

TABLES = ("prices", "stock")
ROWS = 20
DOCUMENTS = 12
COLLECTION = "help"
TENANTS = ("acme", "globex", "initech")
MODEL = "m1"
REMEMBERED = 64
"""Binding versions kept per fact; asks are answered long before that many have passed."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, under which key, and the tags that its answer depends on."""

    number: int
    key: str
    partition: str
    text: str
    asked: str
    """The same in other words."""
    tags: tuple[str, ...]


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """What the guarantee excludes: an answer made from a fact at `seen`, asked for when `required` was binding."""

    kind: str
    tenant: str
    question: int
    fact: str = ""
    seen: int = 0
    required: int = 0
    cause: str = ""
    after_s: float = 0.0


class World:
    """All facts, what is binding, and the violations found so far."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.violations: list[Violation] = []
        self._binding: dict[str, deque[tuple[float, int, str]]] = {}

    def raise_(self, facts: list[str]) -> dict[str, int]:
        """New versions of some facts, in force from now on for whoever makes an answer."""
        for fact in facts:
            self.versions[fact] = self.versions.get(fact, 0) + 1
        return {fact: self.versions[fact] for fact in facts}

    def bind(self, versions: dict[str, int], from_s: float, cause: str) -> None:
        """Whoever asks after `from_s` may not be answered from older versions than these."""
        for fact, version in versions.items():
            self._binding.setdefault(fact, deque(maxlen=REMEMBERED)).append((from_s, version, cause))

    def read(self, tenant: str, question: Question) -> str:
        """An answer, which says what it was made from."""
        seen = {fact: self.versions.get(fact, 0) for fact in facts_of(tenant, question.tags)}
        return json.dumps({"tenant": tenant, "number": question.number, "seen": seen})

    def check(self, text: str, tenant: str, question: Question, began_s: float) -> bool:
        """Whether an answer to a question asked at `began_s` is right; what is not is a violation."""
        try:
            made: dict[str, Any] = json.loads(text)
        except ValueError:
            return self._wrong("unreadable", tenant, question)
        if made["tenant"] != tenant:
            return self._wrong("tenant", tenant, question)
        if made["number"] != question.number:
            return self._wrong("question", tenant, question)
        return all(self._new_enough(fact, seen, tenant, question, began_s) for fact, seen in made["seen"].items())

    def _new_enough(self, fact: str, seen: int, tenant: str, question: Question, began_s: float) -> bool:
        binding = [one for one in self._binding.get(fact, ()) if one[0] <= began_s]
        since_s, required, cause = max(binding, key=lambda one: one[1], default=(0.0, 0, ""))
        if seen >= required:
            return True
        found = {"fact": fact, "seen": seen, "required": required, "cause": cause}
        return self._wrong("stale", tenant, question, after_s=round(began_s - since_s, 3), **found)

    def _wrong(self, kind: str, tenant: str, question: Question, **more: Any) -> bool:
        self.violations.append(Violation(kind=kind, tenant=tenant, question=question.number, **more))
        return False


def questions(count: int) -> list[Question]:
    """Questions about rows, tables, documents and collections; some of each kind share a partition."""
    made = []
    for number in range(count):
        thing, row = f"{_WORDS[number % len(_WORDS)]}{number}", number % ROWS
        table = TABLES[number % 2]
        document = f"document:{COLLECTION}/{number % DOCUMENTS}"
        tags = [
            (f"{table}:{row}",),
            (f"{table}:{row}", document),
            (document, f"collection:{COLLECTION}"),
            (table,),
            (f"prices:{row}", f"stock:{(row * 7) % ROWS}"),
        ][number // 3 % 5]
        made.append(
            Question(
                number=number,
                key=f"key{number}",
                partition=f"part{number % 7}",
                text=f"How can I change the delivery address of my {thing} order?",
                asked=f"How do I change the delivery address of my {thing} order?",
                tags=tags,
            )
        )
    return made


_WORDS = ("lamp", "chair", "kettle", "jacket", "camera", "guitar", "carpet", "mirror", "printer", "tent", "helmet")


def facts_of(tenant: str, tags: tuple[str, ...]) -> list[str]:
    """Everything that an answer with these tags depends on."""
    found = [f"{tenant}/everything", f"{tenant}/model:{MODEL}"]
    for tag in tags:
        found += _rows(tag) if tag.partition(":")[0] in TABLES else _documents(tenant, tag)
        found += [f"{tenant}/{tag}", *([f"{tenant}/{tag.partition(':')[0]}"] if ":" in tag else [])]
        if tag in TABLES:
            found += [f"{tenant}/{row}" for row in _rows(tag)]
    return list(dict.fromkeys(found))


def _rows(tag: str) -> list[str]:
    return [tag] if ":" in tag else [f"{tag}:{row}" for row in range(ROWS)]


def _documents(tenant: str, tag: str) -> list[str]:
    if tag.startswith("document:"):
        return [f"{tenant}/version of {tag}"]
    return [f"{tenant}/version of document:{COLLECTION}/{number}" for number in range(DOCUMENTS)]
