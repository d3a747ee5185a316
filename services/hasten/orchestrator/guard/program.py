"""A regular expression as a program for an automaton, which cannot backtrack; pure.

Python's own parser reads the expression, so that it means what it means to `re` with MULTILINE: of several ways to
match, the first that is written. What an automaton cannot do (references to groups, looking ahead or behind) is
refused.
"""

import re
from collections.abc import Callable, Iterable
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Literal

import msgspec

MOST_NODES = 1000
"""Of one expression, after `{m,n}` has been written out: a step costs at most one look at each."""
Place = Literal["line_start", "line_end", "text_start", "text_end", "boundary", "inside"]
_PLACES: dict[Any, Place] = {
    op.AT_BEGINNING: "line_start",
    op.AT_BEGINNING_STRING: "text_start",
    op.AT_END: "line_end",
    op.AT_END_STRING: "text_end",
    op.AT_BOUNDARY: "boundary",
    op.AT_NON_BOUNDARY: "inside",
}
_CLASSES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}
_MISSING = {
    op.ASSERT: "looking ahead or behind",
    op.ASSERT_NOT: "looking ahead or behind",
    op.GROUPREF: "reference to a group",
    op.GROUPREF_EXISTS: "reference to a group",
    op.ATOMIC_GROUP: "atomic group",
    op.POSSESSIVE_REPEAT: "possessive repeat",
}
_CHAR_FLAGS = re.IGNORECASE | re.ASCII | re.DOTALL


class Unsupported(ValueError):
    """An expression that is no program; its text says why."""


class Node(msgspec.Struct, kw_only=True):
    """One step: with `test` it takes a character, with `place` it looks where it is, otherwise it goes on at all of
    `then`, in this order. The node of a whole match leads nowhere."""

    test: Callable[[str], Any] | None = None
    place: Place | None = None
    ascii: bool = False
    then: list[int] = []


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of an expression; a match begins at `start` and has come to its end at node 0."""

    nodes: list[Node]
    start: int

    @property
    def looks(self) -> bool:
        """Whether it matters what stands before a match."""
        return any(node.place for node in self.nodes)


def compiled(expression: str, flags: int = 0) -> Program:
    """The program of an expression; raises Unsupported, and re.error for one that is none."""
    parsed = parser.parse(expression, flags | re.MULTILINE)
    if parsed.getwidth()[0] == 0:
        raise Unsupported("it matches where there is nothing")
    builder = _Builder()
    start = builder.sequence(parsed, 0, parsed.state.flags)
    return Program(nodes=builder.nodes, start=start)


class _Builder:
    """Builds from the end: each part is told what comes after it."""

    def __init__(self) -> None:
        self.nodes = [Node()]

    def _add(self, **fields: Any) -> int:
        if len(self.nodes) >= MOST_NODES:
            raise Unsupported(f"it is too large: written out, it has more than {MOST_NODES} steps")
        self.nodes.append(Node(**fields))
        return len(self.nodes) - 1

    def sequence(self, items: Iterable[tuple[Any, Any]], after: int, flags: int) -> int:
        for kind, argument in reversed(list(items)):
            after = self._one(kind, argument, after, flags)
        return after

    def _one(self, kind: Any, argument: Any, after: int, flags: int) -> int:
        if kind in (op.LITERAL, op.NOT_LITERAL):
            negated = "^" if kind is op.NOT_LITERAL else ""
            return self._char(f"[{negated}{_escaped(argument)}]", after, flags)
        if kind is op.ANY:
            return self._char(".", after, flags)
        if kind is op.IN:
            return self._char(_class(argument), after, flags)
        if kind is op.AT and argument in _PLACES:
            return self._add(place=_PLACES[argument], ascii=bool(flags & re.ASCII), then=[after])
        if kind is op.SUBPATTERN:
            _, added, removed, inner = argument
            return self.sequence(inner, after, (flags | added) & ~removed)
        if kind is op.BRANCH:
            return self._add(then=[self.sequence(branch, after, flags) for branch in argument[1]])
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            return self._repeat(*argument, after=after, flags=flags, greedy=kind is op.MAX_REPEAT)
        raise Unsupported(f"an automaton has no {_MISSING.get(kind, str(kind))}: use a function for that")

    def _char(self, source: str, after: int, flags: int) -> int:
        return self._add(test=re.compile(source, flags & _CHAR_FLAGS).match, then=[after])

    def _repeat(self, least: int, most: Any, inner: Any, *, after: int, flags: int, greedy: bool) -> int:
        def either(once: int) -> list[int]:
            return [once, after] if greedy else [after, once]

        entry = after
        if most is op.MAXREPEAT:
            entry = self._add()
            self.nodes[entry].then = either(self.sequence(inner, entry, flags))
        else:
            for _ in range(most - least):
                entry = self._add(then=either(self.sequence(inner, entry, flags)))
        for _ in range(least):
            entry = self.sequence(inner, entry, flags)
        return entry


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"


def _class(items: list[tuple[Any, Any]]) -> str:
    parts: list[str] = []
    for kind, argument in items:
        if kind is op.NEGATE:
            parts.append("^")
        elif kind is op.LITERAL:
            parts.append(_escaped(argument))
        elif kind is op.RANGE:
            parts.append(f"{_escaped(argument[0])}-{_escaped(argument[1])}")
        else:
            parts.append(_CLASSES[argument])
    return f"[{''.join(parts)}]"
