"""Whether llama.cpp can read a grammar in its own notation (GBNF): one that it cannot is printed to stderr by it.

Pure. Follows llama.cpp's parser; what is not known to be read is refused.
"""

import re

DEEPEST, MOST = 32, 2000
"""Groups in one another, and times that an item may be repeated."""
_SPACE = r"(?:[ \t]++|\#[^\r\n]*+)*+"
_LINES = r"(?:[ \t\r\n]++|\#[^\r\n]*+)*+"
_NAME = r"[a-zA-Z0-9-]+"
_ESCAPE = r'\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[trn\\"\[\]])'
SPACE, LINES = re.compile(_SPACE), re.compile(_LINES)
HEAD = re.compile(rf"({_NAME}){_SPACE}::={_LINES}")
ITEM = re.compile(
    rf'(?P<empty>"")|"(?:{_ESCAPE}|[^"\\\0])*"|\[\^?(?:{_ESCAPE}|[^\]\\\0])+\]|\.|(?P<name>[a-zA-Z0-9-]+)'
)
REPEAT = re.compile(rf"[*+?]|\{{{_SPACE}([0-9]{{1,4}}){_SPACE}(?:,{_SPACE}([0-9]{{0,4}}){_SPACE})?\}}")
BAR, OPEN, CLOSE = re.compile(rf"\|{_LINES}"), re.compile(rf"\({_LINES}"), re.compile(r"\)")
NEWLINE = re.compile(r"\r\n?|\n")


def readable(grammar: str) -> bool:
    """Whether every rule is written as one, and every rule that is used is there."""
    return _Grammar(grammar).whole()


class _Grammar:
    """A grammar that is read from its first character to its last."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._defined: set[str] = set()
        self._used: set[str] = set()

    def whole(self) -> bool:
        self._take(LINES)
        while self._at < len(self._text):
            if not self._rule():
                return False
        return self._used <= self._defined

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        if found := pattern.match(self._text, self._at):
            self._at = found.end()
        return found

    def _rule(self) -> bool:
        head = self._take(HEAD)
        if head is None or not self._alternates(0):
            return False
        self._defined.add(head[1])
        ended = self._at == len(self._text) or self._take(NEWLINE) is not None
        self._take(LINES)
        return ended

    def _alternates(self, depth: int) -> bool:
        while self._sequence(depth):
            if self._take(BAR) is None:
                return True
        return False

    def _sequence(self, depth: int) -> bool:
        repeatable = False
        while True:
            if item := self._take(ITEM):
                repeatable = item["empty"] is None
                self._used |= {item["name"]} - {None}
            elif self._take(OPEN):
                if depth == DEEPEST or not self._alternates(depth + 1) or self._take(CLOSE) is None:
                    return False
                repeatable = True
            elif repeat := self._take(REPEAT):
                if not repeatable or any(int(times) > MOST for times in repeat.groups() if times):
                    return False
            else:
                return True
            self._take(LINES if depth else SPACE)
