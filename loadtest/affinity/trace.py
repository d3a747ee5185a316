"""Reads the trace: when requests came, how long they were, and which blocks of their prompts are the same."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

FILE = Path("mooncake_traces") / "conversation_trace.jsonl"
BLOCK = 512
"""Tokens of a block of the trace."""


class Asked(msgspec.Struct, frozen=True):
    """One request. `hash_ids` name the blocks of its prompt; the same id means the same block after the same ones."""

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]

    @property
    def at_s(self) -> float:
        """Seconds from the start of the trace."""
        return self.timestamp / 1000


def read(data: Path, limit: int | None = None) -> list[Asked]:
    """The first `limit` requests of the trace in the data folder; raises FileNotFoundError without it."""
    with (data / FILE).open("rb") as lines:
        asked = [msgspec.json.decode(line, type=Asked) for line in lines]
    return asked[:limit]


def ceiling(trace: Sequence[Asked]) -> float:
    """The share of prompt blocks that came before at the same place: what one cache without bounds would save."""
    seen: set[int] = set()
    reused = 0
    for one in trace:
        reused += next((at for at, block in enumerate(one.hash_ids) if block not in seen), len(one.hash_ids))
        seen.update(one.hash_ids)
    return reused / sum(len(one.hash_ids) for one in trace)
