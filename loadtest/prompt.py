"""The questions of a run: some popular ones again and again, by Zipf's law, and others that nobody has asked before."""

import csv
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loadtest.scenario import Prompts, ScenarioError

REPEATED, NEW = "repeated", "new"
"""The kinds of a question: one of the popular ones (its first time included), or one of its own."""
_TOPICS = ("delivery", "invoice", "contract", "password", "warranty", "account", "holiday", "schedule", "battery")
_VERBS = ("change", "cancel", "extend", "check", "explain", "renew", "print", "move", "compare")


class Questions:
    """The bodies of a run in the order of asking; the same for the same seed."""

    def __init__(self, prompts: Prompts, data: Path | None, seed: int) -> None:
        self._prompts, self._draws = prompts, random.Random(f"questions {seed}")
        texts = self._texts(data)
        popular = list(itertools.islice(texts, prompts.distinct if prompts.repeated else 0))
        weights = [1 / rank**prompts.zipf for rank in range(1, len(popular) + 1)]
        self._popular, self._weights, self._new = popular, list(itertools.accumulate(weights)), texts

    def next(self) -> tuple[str, dict[str, Any]]:
        """The kind of the next question, and its chat body."""
        repeats = self._draws.random() < self._prompts.repeated and bool(self._popular)
        if repeats:
            (text,) = self._draws.choices(self._popular, cum_weights=self._weights)
        else:
            text = next(self._new)
        turns = [{"role": "user", "content": text}]
        if self._prompts.system:
            turns.insert(0, {"role": "system", "content": self._prompts.system})
        return (REPEATED if repeats else NEW), {**self._prompts.body, "messages": turns}

    def _texts(self, data: Path | None) -> Iterator[str]:
        """Different texts without an end: those of the source in random order, then the same with numbers."""
        if self._prompts.source == "made":
            return (self._made(number) for number in itertools.count(1))
        known = self._prompts.texts if self._prompts.source == "list" else _read(self._prompts.source, data)
        unique = list(dict.fromkeys(known))
        self._draws.shuffle(unique)
        again = (f"{text} (case {number})" for number in itertools.count(1) for text in unique)
        return itertools.chain(unique, again)

    def _made(self, number: int) -> str:
        draw = self._draws.choice
        begin = f"How do I {draw(_VERBS)} {draw(_TOPICS)} number {number}"
        rest = " ".join(f"{draw(_VERBS)} {draw(_TOPICS)}" for _ in range(self._prompts.words // 2))
        return " ".join(f"{begin} {rest}".split()[: max(7, self._prompts.words)]) + "?"


def _read(source: str, data: Path | None) -> list[str]:
    folder = (data or Path()) / source
    try:
        if source == "banking77":
            with (folder / "train.csv").open(newline="") as file:
                return [line["text"].strip() for line in csv.DictReader(file)]
        plain = json.loads((folder / "data_full.json").read_text())
        return [text for text, _ in plain["train"]]
    except OSError as error:
        raise ScenarioError(f"prompts.source: {source} is not in the folder --data ({error.strerror})") from None
