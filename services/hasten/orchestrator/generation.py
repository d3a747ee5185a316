"""Runs one generation on a worker and relays it; when the worker is lost, the text goes on from another."""

import asyncio
from collections.abc import Callable

import msgspec

from hasten.bus import Bus
from hasten.chunks import merge_tool_calls
from hasten.messages.cache import Answer
from hasten.messages.chat import ChatRequest, Chunk, Done, Turn, Usage
from hasten.messages.failure import RETRYABLE, Failed, Failure
from hasten.messages.retrieve import Passage
from hasten.messages.route import Routed
from hasten.orchestrator.attempt import Attempt, cut_off, generate_of
from hasten.orchestrator.cascade import Cascade, Draft, Escalation
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.hedge import Hedges
from hasten.orchestrator.race import Race
from hasten.orchestrator.settings import Settings
from hasten.orchestrator.stages import Stages

PAUSE_S = 0.2


class Reroute:
    """Finds another worker for a flight, and its prompt: a new one where the model counts or fits differently."""

    def __init__(
        self, stages: Stages, passages: list[Passage], vector: bytes | None, tell: Callable[[Routed, list[Turn]], None]
    ) -> None:
        self._stages, self._passages, self._vector, self._tell = stages, passages, vector, tell

    async def find(
        self, last: Routed, messages: list[Turn], failed: list[str], model: str | None, above: str = ""
    ) -> tuple[Routed, list[Turn]] | None:
        """A worker that has not failed, of `model` if given or a better one than `above`, and its prompt; None when
        there is none."""
        try:
            routed = await self._stages.route(self._vector, model=model, exclude=failed, above=above)
            if _fit(routed) != _fit(last):
                routed, compressed = await self._stages.compress(routed, self._passages)
                messages = compressed.messages
            else:
                routed = msgspec.structs.replace(routed, max_tokens=last.max_tokens)
        except Failed:
            return None
        self._tell(routed, messages)
        return routed, messages

    async def beside(self, last: Routed, exclude: list[str]) -> Routed | None:
        """Another worker of the same model that has a slot free and takes the same prompt; None when there is none."""
        try:
            routed = await self._stages.route(self._vector, model=last.model, exclude=exclude, spare=True)
        except Failed:
            return None
        return msgspec.structs.replace(routed, max_tokens=last.max_tokens) if _fit(routed) == _fit(last) else None


def _fit(routed: Routed) -> tuple[str, int, int, dict[str, float]]:
    return routed.tokenizer, routed.token_budget, routed.context_window, routed.shares


class Generation:
    """The answer of one flight, from however many workers it takes; it goes on from what the flight has said already,
    which is something when another replica had begun to generate it."""

    def __init__(self, bus: Bus, flight: Flight, request: ChatRequest, settings: Settings, hedges: Hedges) -> None:
        self._bus, self._flight, self._request, self._settings = bus, flight, request, settings
        self._hedges = hedges
        self._cascade = Cascade(flight, request, settings)
        self._before = 0
        self._lost = False
        self._text = [chunk.text for chunk in flight.said]
        self._reasoning = [chunk.reasoning for chunk in flight.said if chunk.reasoning]
        self._tool_calls = [call for chunk in flight.said for call in chunk.tool_calls or []]

    async def run(self, routed: Routed, messages: list[Turn], reroute: Reroute) -> Answer:
        """Streams the answer to the flight and returns it whole; raises Failed when no worker could finish it.

        Before the first chunk any worker may take over. Afterwards only one of the same model whose engine continues
        a given text: it gets identical messages and the text so far, so that nothing is repeated. So does the same
        worker when it has stopped at a deadline that a follower has put off since, or was only lost and is the last.
        """
        failed: list[str] = []
        asked = 0
        self._hedges.called()
        if not self._may_go_on(routed):
            raise Failed("incomplete", f"{routed.model} cannot go on from the text that was sent", retry_after_ms=1000)
        while True:
            until_ms = self._flight.deadline_ms
            routed, ended = await self._attempt(routed, messages, f"{self._flight.id}-{asked}", failed, reroute)
            asked += 1
            if isinstance(ended, Done):
                return self._answer(ended, routed)
            if isinstance(ended, Escalation):
                routed, messages = ended.routed, ended.messages
                continue
            if ended.code == "deadline" and until_ms < self._flight.deadline_ms and self._may_go_on(routed):
                continue
            if not cut_off(ended, self._bus):
                failed.append(routed.worker)
            retries = ended.code in RETRYABLE and len(failed) < self._settings.attempts and self._may_go_on(routed)
            if retries and (other := await self._elsewhere(routed, messages, failed, reroute)) is not None:
                routed, messages = other
                continue
            if retries and self._lost and (there := await self._after_all(routed, messages, reroute)) is not None:
                routed, messages = there
                continue
            if (draft := self._cascade.after_all()) is not None:
                return self._show(draft)
            raise Failed.of(msgspec.structs.replace(ended, tokens_sent=self._flight.chunks, model=routed.model))

    async def _elsewhere(
        self, routed: Routed, messages: list[Turn], failed: list[str], reroute: Reroute
    ) -> tuple[Routed, list[Turn]] | None:
        """Who goes on: a worker of the same model once something was shown, before that any; after an escalation one
        of a better model than the draft's, as long as the draft is there to be shown instead."""
        if self._flight.chunks:
            return await reroute.find(routed, messages, failed, routed.model)
        above = self._cascade.above if self._cascade.kept is not None else ""
        return await reroute.find(routed, messages, failed, None, above=above)

    async def _after_all(
        self, routed: Routed, messages: list[Turn], reroute: Reroute
    ) -> tuple[Routed, list[Turn]] | None:
        """Whoever there is, those that were only lost among them; after an outage of NATS when they are back."""
        while True:
            found = await self._elsewhere(routed, messages, [], reroute) if self._bus.connected else None
            if found is not None or not self._bus.unsettled:
                return found
            await asyncio.sleep(PAUSE_S)

    def _may_go_on(self, routed: Routed) -> bool:
        return not self._flight.chunks or (routed.continues and not self._tool_calls and not self._reasoning)

    async def _attempt(
        self, routed: Routed, messages: list[Turn], attempt_id: str, failed: list[str], reroute: Reroute
    ) -> tuple[Routed, Done | Failure | Escalation]:
        """One worker's try, or two workers' when the first is slow to speak: the one that went on, and how it ended.
        The other one is added to `failed` when it could not."""
        flight = self._flight
        flight.model, flight.prompt = routed.model, messages
        self._before = flight.chunks
        first = self._new(routed, messages, attempt_id)

        async def second() -> Attempt | None:
            other = await reroute.beside(routed, [*failed, routed.worker])
            return None if other is None else self._new(other, messages, f"{attempt_id}-h", beside=True)

        self._at(routed)
        if flight.chunks or self._request.priority < 0:
            async with first:
                return routed, await self._read(first, messages, failed, reroute)
        async with first, Race(self._hedges, first, second) as race:
            winner = await race.winner(routed.p95_ttft_ms)
            self._at(winner.routed)
            if race.second is not None and not isinstance(await winner.first(), Failure):
                self._note_race(race, first, race.second, winner)
            failed += race.failed
            return winner.routed, await self._read(winner, messages, failed, reroute)

    def _new(self, routed: Routed, messages: list[Turn], attempt_id: str, *, beside: bool = False) -> Attempt:
        held = self._cascade.holds(routed)
        body = generate_of(self._request, routed, messages, "".join(self._text), self._flight.chunks, held)
        return Attempt(self._bus, self._flight, routed, body, attempt_id, self._settings.silence_s, beside=beside)

    def _at(self, routed: Routed) -> None:
        flight = self._flight
        flight.slug, flight.worker = routed.slug, routed.worker
        flight.bound = not routed.continues or bool(self._request.tools)

    def _note_race(self, race: Race, first: Attempt, second: Attempt, winner: Attempt) -> None:
        after_ms = second.since_ms - first.since_ms
        workers = [first.routed.worker, second.routed.worker]
        self._flight.note("hedge", {"workers": workers, "won": winner.routed.worker, "after_ms": round(after_ms, 1)})
        if winner is second:
            self._flight.watch.stages["hedge"] = round(after_ms, 3)

    async def _read(
        self, attempt: Attempt, messages: list[Turn], failed: list[str], reroute: Reroute
    ) -> Done | Failure | Escalation:
        """Relays an attempt to its end, if nothing speaks against it."""

        async def better() -> tuple[Routed, list[Turn]] | None:
            return await reroute.find(attempt.routed, messages, failed, None, above=attempt.routed.model)

        if held := self._cascade.holds(attempt.routed):
            chunks, ended = await self._cascade.judged(attempt, held, better)
            for chunk in chunks:
                self._relay(chunk, attempt)
            if ended is not None:
                self._lost = attempt.lost
                return ended
        while isinstance(event := await attempt.take(), Chunk):
            self._relay(event, attempt)
        self._lost = attempt.lost
        return event

    def _show(self, draft: Draft) -> Answer:
        """A draft as the answer."""
        self._flight.model = draft.attempt.routed.model
        self._at(draft.attempt.routed)
        for chunk in draft.chunks:
            self._relay(chunk, draft.attempt)
        return self._answer(draft.done, draft.attempt.routed)

    def _relay(self, chunk: Chunk, attempt: Attempt) -> None:
        flight = self._flight
        if not flight.chunks:
            flight.worker_ttft_ms = flight.watch.stages["first_token"] = round(attempt.waited_ms, 3)
        self._text.append(chunk.text)
        if chunk.reasoning:
            self._reasoning.append(chunk.reasoning)
        self._tool_calls.extend(chunk.tool_calls or [])
        flight.say(msgspec.structs.replace(chunk, seq=flight.chunks))

    def _answer(self, done: Done, routed: Routed) -> Answer:
        tokens = done.usage.completion_tokens + self._before
        if not self._before and (queue := done.timings_ms.get("queue")) is not None:
            self._flight.watch.stages["queue"] = queue
        return Answer(
            text="".join(self._text),
            finish_reason=done.finish_reason,
            model=routed.model,
            usage=self._usage(done.usage, tokens),
            reasoning="".join(self._reasoning),
            tool_calls=merge_tool_calls(self._tool_calls) or None,
        )

    def _usage(self, usage: Usage, tokens: int) -> Usage:
        """What the answer has cost, with that of a draft that was given up among the details."""
        details = {**(usage.completion_tokens_details or {}), **({"cascade": s} if (s := self._cascade.spent) else {})}
        return msgspec.structs.replace(usage, completion_tokens=tokens, completion_tokens_details=details or None)
