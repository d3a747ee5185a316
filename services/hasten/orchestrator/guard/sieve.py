"""One kind of text of one answer under its rules: expressions first, then the functions and tools, all at once."""

import asyncio
from collections.abc import Callable

from hasten.messages.guard import GuardWindow, Kind
from hasten.orchestrator.guard.judgement import Ruling, Unjudged
from hasten.orchestrator.guard.rules import Rules
from hasten.orchestrator.guard.window import Window

LOOKS = 4000
"""Looks at nodes of programs between two turns of the event loop: 1 ms or less."""
MOST_ASKED = 8192
"""New characters that functions and tools are asked about at once."""
UNANSWERED = "unanswered"
Give = Callable[[str], None]


class Sieve:
    """Takes a text in pieces and calls `give` with what may be shown. What has to be judged is judged in the
    background, together with what comes meanwhile; `settle` waits for that. `stopped` names the rule at which the text
    ended, and `why` is `unanswered` where it was no match. `silent` are the rules that were left out since they did not
    answer."""

    def __init__(self, rules: Rules, kind: Kind, tenant: str, deadline_ms: Callable[[], float], give: Give) -> None:
        self._rules, self._kind, self._tenant = rules, kind, tenant
        self._deadline_ms, self._give = deadline_ms, give
        self._window = Window(rules.patterns[kind])
        self._judges = list(rules.judges[kind])
        self._unjudged = Unjudged(kind, max([judge.rule.longest for judge in self._judges], default=0))
        self._task: asyncio.Task[None] | None = None
        self._stopped = self.why = ""
        self._last = self._fresh = False
        self.silent: list[str] = []

    @property
    def stopped(self) -> str:
        """The rule at which the text ends, although what is before it may still be judged; nothing while it goes on."""
        return self._stopped or self._unjudged.stopped or self._window.stopped

    @property
    def hits(self) -> dict[str, int]:
        """Replacements by rule."""
        return {**self._window.hits, **self._unjudged.hits}

    def known(self, text: str) -> None:
        """Takes what has been shown already."""
        self._window.known(text)
        self._unjudged.known(text)

    async def take(self, text: str) -> None:
        """Takes a piece; one that no function or tool is asked about has been given out, as far as it may be."""
        if self.stopped:
            return
        self._window.add(text)
        await self._run()
        self._pass(self._window.out())

    async def _run(self) -> None:
        read = self._window.run(LOOKS)
        while not read:
            await asyncio.sleep(0)
            read = self._window.run(LOOKS)

    def _pass(self, text: str) -> None:
        if not self._judges and not self._unjudged.waits and self._task is None:
            if text:
                self._give(text)
            return
        self._unjudged.add(text)
        self._fresh = self._fresh or bool(text)
        self._begin()

    def _begin(self) -> None:
        if self._fresh and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._judge())

    async def _judge(self) -> None:
        while self._fresh and not self._stopped and not self._unjudged.stopped:
            self._fresh = False
            window = self._unjudged.window(self._last, MOST_ASKED)
            rulings = await self._rulings(window)
            if not self._stopped and (text := self._unjudged.judged(window, rulings)):
                self._give(text)
            self._fresh = self._fresh or self._unjudged.more
        self._task = None

    async def _rulings(self, window: GuardWindow) -> list[Ruling]:
        """What all of them say; who says nothing ends the text, or is left out from now on."""
        judges, until_ms = self._judges, self._deadline_ms()
        heard = await asyncio.gather(*(judge.ruling(self._tenant, window, until_ms) for judge in judges))
        for judge, ruling in zip(judges, heard, strict=True):
            if ruling is None and judge.rule.unanswered == "closed":
                self._stopped, self.why = self._stopped or judge.rule.name, UNANSWERED
            elif ruling is None:
                self.silent.append(judge.rule.name)
        self._judges = [judge for judge in judges if judge.rule.name not in self.silent]
        return [ruling for ruling in heard if ruling is not None]

    async def settle(self) -> None:
        """Returns when everything has been judged that was taken."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def end(self) -> None:
        """Gives out what may be shown now that nothing follows."""
        if not self._window.stopped:
            await self._run()
            self._pass(self._window.end())
        await self.settle()
        if self._unjudged.waits and not self._stopped:
            self._last = self._fresh = True
            self._begin()
            await self.settle()

    def close(self) -> None:
        """Gives up what is being judged."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
