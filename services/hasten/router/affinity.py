"""Remembers which worker has computed which beginnings of prompts, as hashes; pure, and bounded as the workers are."""

from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType

Prefix = Mapping[str, int]
"""Hashes of ever longer beginnings of a prompt, shortest first, with the tokens that each of them has."""
NO_PREFIX: Prefix = MappingProxyType({})
MARKS, LONGEST = 64, 64
"""Hashes that are heeded of one prompt, and characters of a hash."""
KEPT = 50_000
"""Beginnings that are remembered of one worker, however many tokens it claims to keep."""


def own(tenant: str, prefix: Prefix) -> dict[str, int]:
    """The prefix as nobody but this tenant can name it: a caller who guesses the hash of another tenant's prompt would
    learn from the choice of the worker whether that was asked."""
    marks = [(mark, tokens) for mark, tokens in prefix.items() if len(mark) <= LONGEST]
    return {f"{tenant}.{mark}": min(max(0, tokens), 2**31) for mark, tokens in marks[-MARKS:]}


class Prefixes:
    """What the workers of one model have in their prefix caches, as far as requests were placed there.

    A worker is taken to keep the beginnings that were used last, as many tokens of them as it says it keeps, and of
    a prompt to forget the end first. It is an expectation: a wrong one costs a computation, never an answer.
    """

    def __init__(self) -> None:
        self._kept: dict[str, OrderedDict[str, int]] = {}
        self._tokens: dict[str, int] = {}
        self._where: dict[str, set[str]] = {}

    def placed(self, worker: str, prefix: Prefix, most: int) -> None:
        """Notes that a worker computes a prompt with these beginnings, and keeps `most` tokens in all."""
        kept = self._kept.setdefault(worker, OrderedDict())
        self._tokens.setdefault(worker, 0)
        for mark, tokens in reversed(_parts(prefix)):
            if mark not in kept:
                kept[mark] = tokens
                self._tokens[worker] += tokens
                self._where.setdefault(mark, set()).add(worker)
            kept.move_to_end(mark)
        while kept and (self._tokens[worker] > most or len(kept) > KEPT):
            self._drop(worker, next(iter(kept)))

    def _drop(self, worker: str, mark: str) -> None:
        self._tokens[worker] -= self._kept[worker].pop(mark)
        self._where[mark].discard(worker)
        if not self._where[mark]:
            del self._where[mark]

    def forget(self, worker: str) -> None:
        """Forgets what a worker had: it has left, or started anew with an empty cache."""
        for mark in list(self._kept.get(worker, ())):
            self._drop(worker, mark)
        self._kept.pop(worker, None)
        self._tokens.pop(worker, None)

    def cached(self, prefix: Prefix) -> dict[str, int]:
        """How many tokens of a prompt each worker has, by the longest of its beginnings there; without those that have
        none."""
        found: dict[str, int] = {}
        for mark, tokens in reversed(list(prefix.items())):
            for worker in self._where.get(mark, ()):
                found.setdefault(worker, tokens)
        return found


def _parts(prefix: Prefix) -> list[tuple[str, int]]:
    """Each beginning with the tokens that it has more than the one before."""
    below, parts = 0, []
    for mark, tokens in prefix.items():
        parts.append((mark, max(0, tokens - below)))
        below = tokens
    return parts


def anchor(prefix: Prefix) -> str:
    """The beginning by which a conversation is known, however long it has become: the system's part and the first turn,
    or all there is; empty without any."""
    first = list(prefix)[:2]
    return first[-1] if first else ""
