"""The simulator's memory of computed prompts, in blocks as real engines keep them, and the time that it saves; pure."""

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from hasten.models import EngineConfig

BLOCK = 16
"""Tokens per block, as in vLLM on a GPU; a block is shared only whole."""


class PrefixCache:
    """The last `most` blocks that were used. Each is named by its own tokens and all before it, so that an equal name
    means an equal beginning; of a prompt its last blocks are forgotten first, since without the first they are of no
    use."""

    def __init__(self, most: int) -> None:
        self._blocks: OrderedDict[Hashable, None] = OrderedDict()
        self._most = most

    def known(self, blocks: Sequence[Hashable]) -> int:
        """How many leading blocks are there; they count as used now."""
        count = next((at for at, block in enumerate(blocks) if block not in self._blocks), len(blocks))
        self._use(blocks[:count])
        return count

    def remember(self, blocks: Sequence[Hashable]) -> None:
        """Keeps the blocks of a prompt that has been computed."""
        self._use(blocks)
        while len(self._blocks) > self._most:
            self._blocks.popitem(last=False)

    def _use(self, blocks: Sequence[Hashable]) -> None:
        for block in reversed(blocks):
            self._blocks[block] = None
            self._blocks.move_to_end(block)


def blocks_of(tokens: Sequence[str]) -> list[Hashable]:
    """The names of the whole blocks of a prompt."""
    names: list[Hashable] = []
    digest = b""
    for start in range(0, len(tokens) - BLOCK + 1, BLOCK):
        block = "\0".join(tokens[start : start + BLOCK]).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(digest + block, digest_size=16).digest()
        names.append(digest)
    return names


def prefill_s(config: EngineConfig, prompt: int, cached: int) -> float:
    """Seconds from a slot to the first token of a prompt of so many tokens, `cached` of which are computed already."""
    return config.sim_network_ms / 1000 + (prompt - cached) / config.sim_prefill_per_s


def decode_s(config: EngineConfig, tokens: int) -> float:
    """Seconds that a slot is held for so many tokens of an answer."""
    return tokens / config.sim_decode_per_s
