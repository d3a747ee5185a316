"""Takes a text in pieces and gives out what may be shown of it: everything but what may belong to a match; pure.

What comes out in all does not depend on how the text was cut.
"""

import unicodedata
from bisect import insort
from collections.abc import Sequence

import msgspec

from hasten.orchestrator.guard.automaton import Automaton
from hasten.orchestrator.guard.scanner import Match, Scanner

ENOUGH = 1 << 30
"""More looks than any text needs that one waits for."""
MOST_CHARACTERS = 20_000
"""Characters of which is remembered where they begin something."""


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """A rule with an expression: `replacement` stands for what it matches, or the text ends before it where it
    `stops`."""

    name: str
    automaton: Automaton
    longest: int
    stops: bool = False
    replacement: str = ""


class Patterns:
    """The rules of one kind of text, for all texts of that kind."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.all = list(patterns)
        self._starters: dict[str, list[int]] = {}

    def starters(self, character: str) -> list[int]:
        """The rules, by their places, whose matches may begin with a character."""
        made = self._starters.get(character)
        if made is None:
            if len(self._starters) >= MOST_CHARACTERS:
                self._starters.clear()
            made = [at for at, one in enumerate(self.all) if one.automaton.begins(character)]
            self._starters[character] = made
        return made


class Window:
    """One text under rules, each of which is searched for as if it were alone.

    Where matches overlap, all that they cover is replaced, once, by the replacement of the one that begins first (of
    the first rule, where several do). Marks that combine with the last character of it go with it. At a match of a rule
    that stops, the text ends before it and before whatever may still match then; `stopped` is the rule's name. `hits`
    counts the replacements by rule.
    """

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns
        self._scanners = [Scanner(one.automaton, one.longest) for one in patterns.all]
        self._text, self._base = "", 0
        self._at = self._given = self._covered = self._stop_at = 0
        self._spans: list[tuple[int, int, int]] = []
        self._combines = False
        self._busy: list[int] = []
        self.stopped = ""
        self.hits: dict[str, int] = {}

    def take(self, text: str) -> str:
        """Takes a piece and gives out what may be shown by now."""
        self.add(text)
        self.run(ENOUGH)
        return self.out()

    def add(self, text: str) -> None:
        """Takes a piece, to be read by `run`."""
        self._text += text

    def known(self, text: str) -> None:
        """Takes what has been shown already: what follows is its continuation, and it is not searched itself."""
        self._text += text
        self._at = self._given = self._end
        self._forget()

    def run(self, looks: int) -> bool:
        """Reads on for about so many looks at nodes of programs; whether all has been read."""
        text, base, at, end, starters = self._text, self._base, self._at, self._end, self._patterns.starters
        while at < end and looks > 0 and not self.stopped:
            begin = starters(text[at - base])
            looks -= 1
            if begin or self._busy:
                self._at = at
                looks = self._step(at, begin, looks)
                if looks < 0:
                    return bool(self.stopped)
            at += 1
        self._at = at
        return at >= end or bool(self.stopped)

    @property
    def _end(self) -> int:
        return self._base + len(self._text)

    def _step(self, at: int, begin: list[int], looks: int) -> int:
        """Lets all that wait for it read the character at a place; the looks that are left, below 0 when some have not
        read it."""
        fresh = [one for one in begin if one not in self._busy]
        for one in fresh:
            self._scanners[one].skip(at)
        if fresh:
            self._busy = sorted([*self._busy, *fresh])
        idle = False
        for one in self._busy:
            scanner = self._scanners[one]
            while scanner.at <= at:
                if looks < 0:
                    return -1
                looks -= self._read(one, scanner, at)
                if self.stopped:
                    return -1
            idle = idle or scanner.idle
        if idle:
            self._busy = [one for one in self._busy if not self._scanners[one].idle]
        return max(0, looks)

    def _read(self, one: int, scanner: Scanner, until: int) -> int:
        """Reads one character more, and returns what that has cost."""
        cost, match = scanner.read(self._character)
        self._met(one, scanner, match)
        begins = self._patterns.all[one].automaton.begins
        while scanner.idle and scanner.at <= until and not begins(self._text[scanner.at - self._base]):
            scanner.skip(scanner.at + 1)
        return cost

    def _character(self, at: int) -> str | None:
        """The one at a place; None before the text and behind it."""
        return self._text[at - self._base] if self._base <= at < self._end else None

    def _met(self, one: int, scanner: Scanner, match: Match | None) -> None:
        pattern = self._patterns.all[one]
        if pattern.stops and (match is not None or scanner.found):
            known = [match[0] if match is not None else None, scanner.earliest]
            self.stopped, self._stop_at = pattern.name, min([start for start in known if start is not None])
            self._stop_at = min(self._stop_at, self._open())
        elif match is not None:
            insort(self._spans, (match[0], one, match[1]))

    def _open(self) -> int:
        """The first place of what may still belong to a match, or has not been read."""
        first = self._at
        for one in self._busy:
            scanner = self._scanners[one]
            first = min(first, scanner.at if scanner.earliest is None else scanner.earliest)
        return first

    def out(self) -> str:
        """What may be shown by now and was not given out before."""
        shown = self._until(self._stop_at if self.stopped else self._open())
        self._forget()
        return shown

    def _until(self, until: int) -> str:
        parts: list[str] = []
        while self._spans and self._spans[0][0] < until:
            start, one, end = self._spans.pop(0)
            if start >= self._covered:
                pattern = self._patterns.all[one]
                parts += [self._plain(start), pattern.replacement]
                self.hits[pattern.name] = self.hits.get(pattern.name, 0) + 1
            self._covered = max(self._covered, end)
            self._given, self._combines = max(self._given, self._covered), True
        parts.append(self._plain(until))
        return "".join(parts)

    def _plain(self, until: int) -> str:
        if self._given >= until:
            return ""
        piece = self._text[self._given - self._base : until - self._base]
        if self._combines:
            piece = _without_marks(piece)
            self._combines = not piece
        self._given = until
        return piece

    def _forget(self) -> None:
        """Drops what has been given out, but for one character before what will be searched."""
        drop = min(self._given, self._open()) - 1 - self._base
        if drop > 0:
            self._text, self._base = self._text[drop:], self._base + drop

    def end(self) -> str:
        """What may be shown at the end of the text and was not given out before."""
        while self._busy and not self.stopped:
            one = self._busy[0]
            scanner = self._scanners[one]
            match = scanner.end(self._character)
            self._met(one, scanner, match)
            while not self.stopped and match is not None and scanner.at < self._end:
                self._read(one, scanner, self._end - 1)
            if scanner.idle:
                del self._busy[0]
        return self.out()


def _without_marks(piece: str) -> str:
    for at, character in enumerate(piece):
        if unicodedata.category(character) not in ("Mn", "Me"):
            return piece[at:]
    return ""
