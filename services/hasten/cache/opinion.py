"""Asks a model about questions in the grey zone, in a thread of its own, and remembers what it said.

A verdict only ever adds a hit that the guards do not forbid; a model that is slow, crashes or hangs costs no more than
that: the lookup is the miss it would have been.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from hasten.aside import Aside
from hasten.cache.domain import Entry
from hasten.cache.grey import mark
from hasten.cache.opinions import Model
from hasten.cache.settings import Settings
from hasten.cache.verdicts import Verdicts
from hasten.telemetry import counter, logger

log = logger("cache")
_opinions = counter(
    "cache_opinions_total",
    "Pairs put in line (asked) or not (dropped), verdicts (same, different, failed, late) and hits by them (served)",
    "outcome",
)
Load = Callable[[], Model]
Verdict = asyncio.Future[bool | None]


class _Case:
    """One pair to judge, and where its verdict appears: None when there is none."""

    def __init__(self, mark: str, asked: str, stored: str) -> None:
        self.mark, self.asked, self.stored = mark, asked, stored
        self.verdict: Verdict = asyncio.get_running_loop().create_future()

    def settle(self, verdict: bool | None) -> None:
        if not self.verdict.done():
            self.verdict.set_result(verdict)


class SecondOpinion:
    """One replica's line of pairs to judge, one at a time. Without `load` it never finds anything."""

    def __init__(self, settings: Settings, verdicts: Verdicts, load: Load | None) -> None:
        self._settings, self._verdicts, self._load = settings, verdicts, load
        self.counts: Counter[str] = Counter()
        self._aside = Aside("opinion", 1)
        self._line: asyncio.Queue[_Case] = asyncio.Queue(max(1, settings.opinion_waiting))
        self._cases: dict[str, _Case] = {}
        self._work: asyncio.Task[None] | None = None

    @property
    def active(self) -> bool:
        """Whether there is a model to ask."""
        return self._work is not None

    def count(self, outcome: str) -> None:
        """Counts what came of a pair."""
        self.counts[outcome] += 1
        _opinions.labels(outcome).inc()

    async def start(self) -> None:
        """Loads the model; raises OpinionError, and Failed(unavailable) without JetStream."""
        if self._load is None:
            return
        model = await self._aside.run(self._load)
        await self._verdicts.start()
        self._work = asyncio.get_running_loop().create_task(self._judge_all(model))

    async def find(self, asked: str, entries: Sequence[Entry]) -> Entry | None:
        """The first of these entries whose question is known to be the same as `asked`, within `opinion_ms`.

        When none is, the first that nobody has judged is: at once (`inline`), as far as the time allows, or for later.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.opinion_ms / 1000
        marked = [(entry, mark(entry, asked, self._settings)) for entry in entries]
        try:
            async with asyncio.timeout_at(until):
                known = await asyncio.gather(*(self._verdicts.known(name) for _, name in marked))
        except TimeoutError:
            return None
        for (entry, _), same in zip(marked, known, strict=True):
            if same:
                return entry
        new = next((pair for pair, same in zip(marked, known, strict=True) if same is None), None)
        if new is None or (case := self._ask(asked, *new)) is None or self._settings.opinion_mode == "async":
            return None
        return new[0] if await self._in_time(case, until) else None

    def _ask(self, asked: str, entry: Entry, name: str) -> _Case | None:
        """Puts a pair in line, if it is not there already; None when the line is full."""
        if (there := self._cases.get(name)) is not None:
            return there
        case = _Case(name, asked, entry.text)
        try:
            self._line.put_nowait(case)
        except asyncio.QueueFull:
            self.count("dropped")
            return None
        self.count("asked")
        self._cases[name] = case
        return case

    async def _in_time(self, case: _Case, until: float) -> bool:
        try:
            async with asyncio.timeout_at(until):
                return bool(await asyncio.shield(case.verdict))
        except TimeoutError:
            self.count("late")
            return False

    async def _judge_all(self, model: Model) -> None:
        while True:
            case = await self._line.get()
            try:
                threshold = self._settings.opinion_threshold
                same = await self._aside.run(partial(agreed, model, case.asked, case.stored, threshold))
            except Exception as error:
                log.error("a second opinion failed: %s", type(error).__name__)
                self.count("failed")
            else:
                self.count("same" if same else "different")
                case.settle(self._verdicts.learn(case.mark, same))
                await self._verdicts.share(case.mark, same)
            finally:
                case.settle(None)
                del self._cases[case.mark]

    async def close(self) -> None:
        """Leaves what is in line; a thread that still computes ends with its pair, or with the process."""
        work, self._work = self._work, None
        if work is not None:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        for case in self._cases.values():
            case.settle(None)


def agreed(model: Model, asked: str, stored: str, threshold: float) -> bool:
    """Whether each question follows from the other; the second direction is not asked when the first says no."""
    return model.score(asked, stored) >= threshold and model.score(stored, asked) >= threshold
