"""Finds the matches of one expression in a text that is still growing, as `re.finditer` does; pure."""

from collections.abc import Callable

from hasten.orchestrator.guard.automaton import Automaton

Match = tuple[int, int]


class Scanner:
    """The search of one expression through one text. Places count characters from the beginning of the text.

    `at` is the next character to read. A match has `longest` characters at most: one that is complete by then ends
    there, and of one that is still only possible the beginning is let go.
    """

    def __init__(self, automaton: Automaton, longest: int) -> None:
        self._automaton, self._longest = automaton, longest
        self.at = 0
        self._state = automaton.initial(None)
        self._idle = True
        self._starts: list[int] = []
        self._found: Match | None = None

    @property
    def earliest(self) -> int | None:
        """Where the first match begins that is found but not yet final, or still possible."""
        if self._found is not None:
            return min(self._found[0], self._starts[0]) if self._starts else self._found[0]
        return self._starts[0] if self._starts else None

    @property
    def found(self) -> bool:
        """Whether there is a match already, wherever it will turn out to end."""
        return self._found is not None

    def skip(self, at: int) -> None:
        """Passes over characters at which nothing begins, while nothing has."""
        self.at = at

    @property
    def idle(self) -> bool:
        """Whether nothing has begun."""
        return self._idle

    def read(self, character: Callable[[int], str | None]) -> tuple[int, Match | None]:
        """Reads one character more; what that has cost, and a match that is final by it. After a match the search goes
        on from its end: `at` may be smaller than before."""
        at = self.at
        if self._idle:
            self._state = self._automaton.initial(character(at - 1))
            self._idle = False
        cost, next_ = 1, character(at)
        assert next_ is not None
        step = self._state.steps.get(next_)
        if step is None:
            step, cost = self._automaton.step(self._state, next_), self._automaton.cost
        starts = self._starts
        if step.matched >= 0:
            self._found = (starts[step.matched], at)
        if not step.same:
            starts = self._starts = [starts[rank] if rank < len(starts) else at for rank in step.kept]
        self._state, self.at = step.state, at + 1
        if step.state.ends >= 0:
            self._found, self._starts = (starts[step.state.ends], at + 1), []
        elif starts and at + 1 - starts[0] > self._longest:
            self._shorten()
        if not self._starts:
            return cost, self._settled()
        return cost, None

    def _shorten(self) -> None:
        if self._found is not None:
            self._starts = []
        else:
            first = self.at - self._longest
            self._starts = [max(first, start) for start in self._starts]

    def _settled(self) -> Match | None:
        """The match that nothing can supersede any more; the search begins anew behind it."""
        found, self._found = self._found, None
        self._idle = True
        if found is not None:
            self.at = found[1]
        return found

    def end(self, character: Callable[[int], str | None]) -> Match | None:
        """The match that is final because the text has ended; None when there is none."""
        if self._idle:
            return None
        rank = self._automaton.last(self._state)
        if 0 <= rank < len(self._starts):
            self._found = (self._starts[rank], self.at)
        self._starts = []
        return self._settled()
