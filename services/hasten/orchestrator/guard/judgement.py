"""What functions and tools have said of a piece of an answer, put together; pure."""

from collections.abc import Sequence

import msgspec

from hasten.messages.guard import GuardVerdict, GuardWindow, Kind


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of one rule, and what the rule makes of it."""

    rule: str
    verdict: GuardVerdict
    stops: bool = False
    replacement: str = ""
    longest: int = 0


class Unjudged:
    """A text that waits to be judged: `window` is what is asked about, `judged` takes the rulings and gives out what
    may be shown. What has been shown stays in sight for `sight` characters. `stopped` and `hits` are as in a Window."""

    def __init__(self, kind: Kind, sight: int) -> None:
        self._kind, self._sight = kind, sight
        self._shown, self._new = "", ""
        self.more = False
        """Whether there is a new piece that the last window did not hold."""
        self.stopped = ""
        self.hits: dict[str, int] = {}

    def known(self, text: str) -> None:
        """Takes what has been shown already."""
        self._shown = (self._shown + text)[-self._sight :]

    def add(self, text: str) -> None:
        """Takes a piece that has not been shown."""
        self._new += text

    def window(self, last: bool, most: int) -> GuardWindow:
        """What is to be asked about: at most so many new characters."""
        new = self._new[:most]
        return GuardWindow(
            text=self._shown + new, new=len(self._shown), kind=self._kind, last=last and len(new) == len(self._new)
        )

    def judged(self, window: GuardWindow, rulings: Sequence[Ruling]) -> str:
        """What may be shown of a window."""
        ends = len(window.text)
        spans: list[tuple[int, int, int]] = []
        held = 0
        for at, ruling in enumerate(rulings):
            new = [
                (max(window.new, span.start), min(ends, span.end), at)
                for span in ruling.verdict.spans
                if max(window.new, span.start) < min(ends, span.end)
            ]
            stop = [window.new] * ruling.verdict.stop + [start for start, _, _ in new if ruling.stops]
            if stop:
                self.stopped, ends = self.stopped or ruling.rule, min([ends, *stop])
            spans += new
            held = max(held, min(ruling.verdict.hold, ruling.longest))
        shown_until = ends if window.last or self.stopped else max(window.new, ends - held)
        return self._given(window, sorted(spans), shown_until, rulings)

    def _given(
        self, window: GuardWindow, spans: list[tuple[int, int, int]], until: int, rulings: Sequence[Ruling]
    ) -> str:
        parts: list[str] = []
        given = window.new
        for start, end, at in spans:
            if start >= until:
                break
            if start >= given:
                ruling = rulings[at]
                parts += [window.text[given:start], ruling.replacement]
                self.hits[ruling.rule] = self.hits.get(ruling.rule, 0) + 1
            given = max(given, end)
        parts.append(window.text[given:until])
        given = max(given, until)
        self._shown = window.text[max(0, given - self._sight) : given]
        self.more = len(self._new) > len(window.text) - window.new
        self._new = "" if self.stopped else self._new[given - window.new :]
        return "".join(parts)

    @property
    def waits(self) -> bool:
        """Whether there is anything to be judged."""
        return bool(self._new)
