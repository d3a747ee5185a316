"""Measures how much of each prompt repeats the beginning of the one before, and how much of it the engine had; pure.

Prompts of one tenant, model, system text, tools and common examples are of one template. Nothing is kept of a prompt
but hashes of its blocks.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from hasten.messages.chat import Turn, Usage
from hasten.orchestrator.prefix import encoded

BLOCK = 64
"""Bytes, some 16 tokens: what engines keep is no finer."""
MOST_BLOCKS = 2048
"""Of one prompt, some 32,000 tokens; what comes after counts as new."""
TEMPLATES = 64
"""Templates that are remembered, those used last."""
_DIGEST = 8


class Template(msgspec.Struct, kw_only=True):
    """The sums of one template, in tokens.

    Of `tokens` of its `prompts`, `repeated` ones repeat the beginning of the prompt before and `cached` ones are those
    that engines say they had. The first prompt repeats nothing. `stable_tokens` is the part that is meant to repeat.
    """

    template: str
    tenant: str
    model: str
    prompts: int = 0
    tokens: int = 0
    repeated: int = 0
    cached: int = 0
    stable_tokens: int = 0


class Templates:
    """The templates of one replica. `forget` is called with the name of each that is forgotten."""

    def __init__(self, forget: Callable[[str], None] = lambda name: None, most: int = TEMPLATES) -> None:
        self._forget, self._most = forget, most
        self._seen: OrderedDict[str, tuple[Template, bytes]] = OrderedDict()

    def observe(
        self,
        tenant: str,
        model: str,
        messages: Sequence[Turn],
        stable: int,
        stable_tokens: int,
        tools: list[dict[str, Any]] | None,
        usage: Usage,
    ) -> tuple[str, int]:
        """Counts a prompt whose first `stable` messages are the same for all of its template, with what the engine says
        of it; returns the template's name and the tokens that repeat the prompt before."""
        first = b"".join([msgspec.json.encode(tools), *map(encoded, messages[:stable])])
        rest = b"".join(map(encoded, messages[stable:]))
        name = blake2b(msgspec.json.encode([tenant, model]) + first, digest_size=6).hexdigest()
        blocks = _blocks(first + rest)
        known, before = self._seen.get(name, (Template(template=name, tenant=tenant, model=model), b""))
        same = min(BLOCK * _common(before, blocks), len(first) + len(rest))
        repeated = _tokens(same, len(first), len(rest), min(stable_tokens, usage.prompt_tokens), usage.prompt_tokens)
        known.prompts += 1
        known.tokens += usage.prompt_tokens
        known.repeated += repeated
        known.cached += usage.cached_tokens
        known.stable_tokens = stable_tokens
        self._seen[name] = known, blocks
        self._seen.move_to_end(name)
        while len(self._seen) > self._most:
            self._forget(self._seen.popitem(last=False)[0])
        return name, repeated

    def report(self) -> list[Template]:
        """Every template that is remembered, the one with the most tokens first."""
        return sorted((known for known, _ in self._seen.values()), key=lambda known: -known.tokens)


def _blocks(data: bytes) -> bytes:
    """Hashes of ever longer beginnings, one for each whole block and one for what is left, one after the other."""
    digest = blake2b(digest_size=_DIGEST)
    hashes: list[bytes] = []
    for start in range(0, min(len(data), BLOCK * MOST_BLOCKS), BLOCK):
        digest.update(data[start : start + BLOCK])
        hashes.append(digest.digest())
    return b"".join(hashes)


def _common(one: bytes, two: bytes) -> int:
    """How many hashes two lists begin with in common."""
    most = min(len(one), len(two))
    if one[:most] == two[:most]:
        return most // _DIGEST
    low, high = 0, most // _DIGEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[: middle * _DIGEST] == two[: middle * _DIGEST] else (low, middle)
    return low


def _tokens(same: int, first: int, rest: int, stable_tokens: int, tokens: int) -> int:
    """The tokens of the first `same` bytes of a prompt that has `first` bytes of the stable part and `rest` others."""
    if same <= first:
        return stable_tokens * same // first if first else 0
    return stable_tokens + (tokens - stable_tokens) * (same - first) // rest
