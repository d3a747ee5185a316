"""Prompts as long as recorded ones: words of four bytes, each of which the simulator counts as a token.

Words of a block follow from its id, so that prompts share exactly the beginnings that the recorded ones shared. Blocks
of a trace without ids are nobody else's.
"""

import random
from collections.abc import Mapping
from typing import Any

from loadtest.trace import BLOCK, Row

LONGEST = 2000
"""Tokens of the longest answer in these traces."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def block(seed: str) -> list[str]:
    """The words of one block."""
    letters = random.Random(seed).choices(_LETTERS, k=3 * BLOCK)
    return ["".join(letters[at : at + 3]) for at in range(0, len(letters), 3)]


def prompt(row: Row, index: int, words: str = "") -> str:
    """A text of `prompt_tokens` words less the one that stands for the turn's role; all are others with other
    `words`."""
    wanted, said = max(1, row.prompt_tokens - 1), list[str]()
    for at in range((wanted + BLOCK - 1) // BLOCK):
        named = at < len(row.blocks)
        said += block(f"{words} block {row.blocks[at]}" if named else f"{words} request {index} block {at}")
    return " ".join(said[:wanted])


def body(row: Row, index: int, words: str = "") -> dict[str, Any]:
    """The chat body of a row: its answer ends after `answer_tokens`."""
    turns = [{"role": "user", "content": prompt(row, index, words)}]
    return {"messages": turns, "max_tokens": max(1, row.answer_tokens), "cache": {"mode": "off"}}


def answering(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with simulated models that say as many words as a recorded answer can have, where they would say a
    few of the question: `max_tokens` ends each answer where the recorded one ended."""
    rows = [dict(row) for row in config.get("models", [])]
    for row in rows:
        engine = row.get("engine", {})
        if engine.get("kind") == "sim" and not engine.get("sim_answer"):
            row["engine"] = {**engine, "sim_answer": "word " * LONGEST}
            row.setdefault("max_tokens", LONGEST)
    return {**config, "models": rows} if rows else dict(config)
