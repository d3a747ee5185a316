"""What a cache is full of while it is measured: distinct questions, with vectors that lie as those of questions do."""

import functools
from collections.abc import Awaitable, Callable

import numpy as np

from hasten.bench.likeness import alike, reworded
from hasten.bench.probes import Probes, together

BLOCK = 1000
PARALLEL = 64
Told = Callable[[int, int], None]
"""Is told how many of how many entries are stored."""


class Filler:
    """Entries by number; the same numbers are always the same entries."""

    def __init__(self, probes: Probes, dim: int) -> None:
        self._probes, self._dim = probes, dim

    async def fill(self, entries: int, told: Told) -> None:
        """Puts the entries 0 to `entries` through the cache, as orchestrators would; raises Failed."""
        for start in range(0, entries, BLOCK):
            rows = alike(BLOCK, self._dim, seed=start)[: entries - start]
            works = [self._storing(start + at, row.tobytes(), patient=True) for at, row in enumerate(rows)]
            await together(works, PARALLEL)
            told(start + len(rows), entries)

    def storing(self, number: int, *tags: str) -> Callable[[], Awaitable[None]]:
        """The put of one entry."""
        return self._storing(number, alike(1, self._dim, seed=number)[0].tobytes(), *tags)

    def _storing(self, number: int, vector: bytes, *tags: str, patient: bool = False) -> Callable[[], Awaitable[None]]:
        return functools.partial(self._probes.store, _question(number), vector, tags=tags, patient=patient)

    def lookups(self, entries: int, count: int) -> list[Callable[[], Awaitable[None]]]:
        """Lookups by meaning of some of the stored entries, with vectors as another wording would have."""
        random = np.random.default_rng(count)
        works: list[Callable[[], Awaitable[None]]] = []
        for start in random.integers(0, max(1, entries // BLOCK), 10) * BLOCK:
            rows = alike(BLOCK, self._dim, seed=int(start))[: entries - start]
            chosen = random.integers(0, len(rows), count // 10)
            asked = reworded(rows[chosen], rows[random.integers(0, len(rows), len(chosen))])
            numbers = (int(start) + int(at) for at in chosen)
            works += [
                functools.partial(self._probes.look_up, _question(number), vector.tobytes())
                for number, vector in zip(numbers, asked, strict=True)
            ]
        return works


def _question(number: int) -> str:
    return f"entry {number}: what is said about item {number * 7919} of the list?"
