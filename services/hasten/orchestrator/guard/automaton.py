"""Runs a program over a text one character at a time, and knows where the earliest match begins that is still possible;
pure.

An automaton with a thread for each way that is still open, kept in the order of preference (Pike's). What it does at a
character depends only on which threads there are, so a step that was made once is looked up afterwards; the places
where threads have begun travel beside it. A step costs no more than a look at each node of the program.
"""

import re

import msgspec

from hasten.orchestrator.guard.program import Node, Program

MOST_KEPT = 100_000
"""Threads in the steps that are remembered of one program, at 100 bytes each, before they are forgotten together."""
_WORD, _ASCII_WORD = re.compile(r"\w").match, re.compile(r"\w", re.ASCII).match
Before = tuple[str, ...]


class State:
    """Threads in the order of preference, each as its node and the rank of its beginning among those that are open;
    `seeking` while a match may still begin. `ends` is the rank of a thread that has matched already, whatever comes, or
    -1."""

    __slots__ = ("before", "ends", "ranks", "seeking", "steps", "threads")

    def __init__(self, threads: tuple[tuple[int, int], ...], before: str | None, seeking: bool, ends: int) -> None:
        self.threads, self.before, self.seeking, self.ends = threads, before, seeking, ends
        self.ranks = 1 + max((rank for _, rank in threads), default=-1)
        self.steps: dict[str, Step] = {}


class Step(msgspec.Struct, frozen=True):
    """What a character does: the next state, the ranks that live on (one more than the old ones is a thread that begins
    at this character), and the rank of a thread that had come to its end before it, or -1."""

    state: State
    kept: tuple[int, ...]
    same: bool
    matched: int


class Automaton:
    """The states of one program, made as they are met. `begins` says of a character whether a match may begin there."""

    def __init__(self, program: Program) -> None:
        self._nodes, self._start, self._looks = program.nodes, program.start, program.looks
        self._states: dict[tuple[object, ...], State] = {}
        self._made = 0
        self._begins: dict[str, bool] = {}

    def initial(self, before: str | None) -> State:
        """Nothing has begun yet; `before` is the character that stands before, None at the beginning of a text."""
        return self._state((), before, True)

    def begins(self, character: str) -> bool:
        """Whether a match may begin with this character."""
        known = self._begins.get(character)
        if known is None:
            if len(self._begins) >= MOST_KEPT:
                self._begins.clear()
            tests = (self._nodes[node].test for node in self._reached(self._start))
            known = self._begins[character] = any(test is not None and test(character) for test in tests)
        return known

    def _reached(self, start: int) -> set[int]:
        """The nodes that may be next, wherever one is."""
        seen, open_ = {start}, [start]
        while open_:
            node = self._nodes[open_.pop()]
            if node.test is None:
                fresh = [one for one in node.then if one not in seen]
                seen.update(fresh)
                open_ += fresh
        return seen

    @property
    def cost(self) -> int:
        """What a step that is not known yet costs, where one that is known costs 1."""
        return len(self._nodes)

    def step(self, state: State, character: str) -> Step:
        """What a character does that `state.steps` does not know yet."""
        if self._made >= MOST_KEPT:
            self._states.clear()
            self._made = 0
            state.steps.clear()
        open_, matched = self._closure(state, character)
        advanced: dict[int, int] = {}
        for node, rank in open_:
            test = self._nodes[node].test
            if test is not None and test(character):
                for one in self._nodes[node].then:
                    advanced.setdefault(one, rank)
        kept = tuple(dict.fromkeys(advanced.values()))
        place = {rank: at for at, rank in enumerate(kept)}
        threads = tuple((node, place[rank]) for node, rank in advanced.items())
        after = self._state(threads, character, state.seeking and matched < 0)
        self._made += 1 + len(threads)
        same = kept == tuple(range(state.ranks))
        step = state.steps[character] = Step(after, kept, same, matched)
        return step

    def last(self, state: State) -> int:
        """The rank of a thread that has matched when the text ends here, or -1."""
        return self._closure(state, None)[1]

    def _state(self, threads: tuple[tuple[int, int], ...], before: str | None, seeking: bool) -> State:
        seen = self._kind(before) if self._looks else None
        key = (threads, seen, seeking)
        made = self._states.get(key)
        if made is None:
            made = self._states[key] = State(threads, seen, seeking, self._surely(threads))
        return made

    def _kind(self, before: str | None) -> str | None:
        """One character for all that are alike to those who look at it."""
        if before is None or before == "\n":
            return before
        if _ASCII_WORD(before):
            return "a"
        return "ä" if _WORD(before) else " "

    def _surely(self, threads: tuple[tuple[int, int], ...]) -> int:
        """The rank of the thread that is preferred to all others if it has matched, wherever it is."""
        if not threads:
            return -1
        node, rank = threads[0]
        for _ in range(len(self._nodes)):
            one = self._nodes[node]
            if node == 0:
                return rank
            if one.test is not None or one.place is not None:
                return -1
            node = one.then[0]
        return -1

    def _closure(self, state: State, after: str | None) -> tuple[list[tuple[int, int]], int]:
        """The threads that take a character, down to the one that has matched; and the rank of that, or -1."""
        seen: set[int] = set()
        found: list[tuple[int, int]] = []
        roots = [*state.threads, (self._start, state.ranks)] if state.seeking else state.threads
        for root, rank in roots:
            open_ = [root]
            while open_:
                at = open_.pop()
                if at in seen:
                    continue
                seen.add(at)
                if at == 0:
                    return found, rank
                node = self._nodes[at]
                if node.test is not None:
                    found.append((at, rank))
                elif node.place is None or _holds(node, state.before, after):
                    open_ += reversed(node.then)
        return found, -1


def _holds(node: Node, before: str | None, after: str | None) -> bool:
    match node.place:
        case "text_start":
            return before is None
        case "text_end":
            return after is None
        case "line_start":
            return before is None or before == "\n"
        case "line_end":
            return after is None or after == "\n"
    is_word = _ASCII_WORD if node.ascii else _WORD
    words = [character is not None and is_word(character) is not None for character in (before, after)]
    return (words[0] != words[1]) == (node.place == "boundary")
