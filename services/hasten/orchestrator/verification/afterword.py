"""What follows the text of an answer before its end: verified citations, checks and corrections, within a deadline.

All of it begins at the last chunk and runs at the same time; what has not come by the deadline is done without.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from hasten.deadline import now_ms
from hasten.messages.cache import Answer
from hasten.messages.check import Check, Checked, Correction
from hasten.messages.retrieve import Passage
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.guard.guarded import STOPPED, guarded
from hasten.orchestrator.guard.rules import Rules
from hasten.orchestrator.settings import Settings
from hasten.orchestrator.verification.checks import Checks, CheckSettings
from hasten.orchestrator.verification.citations import MOST_TOLD, Verification
from hasten.orchestrator.verification.support import Shelf
from hasten.telemetry import counter, logger, where

log = logger("orchestrator")
CITATIONS = "citations"
MOST_CHARS = 20_000
"""Of a longer answer the citations are not verified."""
_verified = counter("verifications_total", "Answers whose citations were looked for, by what came of it", "outcome")


class Afterword:
    """What is said of one answer after its text. `notes` are those to keep with it; `passed` whether it may be kept."""

    def __init__(self, settings: Settings, checks: Checks, shelf: Shelf, rules: Rules, flight: Flight) -> None:
        self._settings, self._checks, self._shelf = settings, checks, shelf
        self._rules, self._flight = rules, flight
        self.notes: list[dict[str, Any]] = []
        self.passed = True

    async def say(self, question: str, answer: Answer, passages: Sequence[Passage]) -> None:
        """Says all that comes in time; returns at the deadline at the latest."""
        verifies = bool(passages) and self._settings.verify_ms > 0 and len(answer.text) <= MOST_CHARS
        if not answer.text or answer.finish_reason == STOPPED or not (verifies or len(self._checks)):
            return
        flight, since_ms = self._flight, self._flight.watch.elapsed_ms()
        until_ms = min(flight.deadline_ms, now_ms() + self._settings.verify_ms)
        asked = Check(
            question=question, text=answer.text, model=answer.model, passages=[_told(one) for one in passages]
        )
        tasks = self._checks.begin(flight.tenant, asked, until_ms)
        saying = [self._check(one, task, answer) for one, task in tasks.items()]
        saying += [self._citations(answer, passages, until_ms)] if verifies else []
        try:
            with flight.timeline.begin("checks"):
                for ended in await asyncio.gather(*saying, return_exceptions=True):
                    if isinstance(ended, Exception):
                        log.error("what follows an answer failed: %s", where(ended))
        finally:
            for task in tasks.values():
                task.cancel()
        flight.watch.record("verify", since_ms)

    async def _citations(self, answer: Answer, passages: Sequence[Passage], until_ms: float) -> None:
        """A turn of the loop lies between any two steps: an answer's readers wait, but nobody else's do."""
        verification = Verification(answer.text, passages, self._shelf)
        for _ in verification.sentences():
            await asyncio.sleep(0)
            if now_ms() > until_ms:
                _verified.labels("late").inc()
                self._note("verification", {"by": CITATIONS, "outcome": "timeout"})
                return
        strict = self._settings.verify_stored == "all"
        passed = verification.passed(strict)
        _verified.labels("passed" if passed else "failed").inc()
        self.passed = self.passed and (passed or self._settings.verify_stored == "off")
        self._note("verification", {"by": CITATIONS, **verification.note(strict)})
        for correction in verification.corrections():
            await self._correct(CITATIONS, correction, answer)

    async def _check(self, one: CheckSettings, task: asyncio.Task[Checked | str], answer: Answer) -> None:
        found = await task
        if not isinstance(found, Checked):
            self.passed = self.passed and not one.required
            self._note("verification", {"by": one.name, "outcome": found})
            return
        self.passed = self.passed and found.passed
        said = {"detail": found.detail, "data": found.data}
        self._note("verification", {"by": one.name, "passed": found.passed, **{k: v for k, v in said.items() if v}})
        for correction in found.corrections[:MOST_TOLD]:
            await self._correct(one.name, correction, answer)

    async def _correct(self, by: str, correction: Correction, answer: Answer) -> None:
        """Tells a correction that has a place in the answer, by the rules that hold for the answer itself."""
        if not 0 <= correction.start <= correction.end <= len(answer.text):
            return
        told = await guarded(Answer(text=correction.text), self._rules, self._flight.tenant, self._flight.deadline_ms)
        if told.finish_reason != STOPPED:
            place = {"start": correction.start, "end": correction.end}
            self._note("correction", {"by": by, **place, "text": told.text})

    def _note(self, kind: str, data: dict[str, Any]) -> None:
        if not self._flight.ended:
            self.notes.append({"kind": kind, "data": data})
            self._flight.note(kind, data)


def _told(passage: Passage) -> Passage:
    """What a check is told of a passage."""
    return msgspec.structs.replace(passage, sentences=[], tags=[])
