"""Prompts as long as recorded ones: words of four bytes, each of which the simulator counts as a token.

Words of a block follow from its id, so that prompts share exactly the beginnings that the recorded ones shared. Blocks
of a trace without ids are nobody else's.
"""

import random
from typing import Any

from loadtest.trace import BLOCK, Row

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def block(seed: str) -> list[str]:
    """The words of one block."""
    letters = random.Random(seed).choices(_LETTERS, k=3 * BLOCK)
    return ["".join(letters[at : at + 3]) for at in range(0, len(letters), 3)]


def prompt(row: Row, index: int) -> str:
    """A text of `prompt_tokens` words less the one that stands for the turn's role."""
    wanted, words = max(1, row.prompt_tokens - 1), list[str]()
    for at in range((wanted + BLOCK - 1) // BLOCK):
        named = at < len(row.blocks)
        words += block(f"block {row.blocks[at]}" if named else f"request {index} block {at}")
    return " ".join(words[:wanted])


def body(row: Row, index: int) -> dict[str, Any]:
    """The chat body of a row: its answer ends after `answer_tokens`."""
    turns = [{"role": "user", "content": prompt(row, index)}]
    return {"messages": turns, "max_tokens": max(1, row.answer_tokens), "cache": {"mode": "off"}}
