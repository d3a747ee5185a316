"""From a prompt that is ready to an answer that is stored: what is told of it, its stream, its end."""

from typing import Any

import msgspec

from hasten.messages.cache import Answer
from hasten.messages.chat import ChatRequest, Turn
from hasten.messages.compress import Compressed
from hasten.messages.failure import Failed
from hasten.messages.resume import Resume
from hasten.messages.retrieve import Passage, Retrieved
from hasten.messages.route import Routed
from hasten.orchestrator.domain import Plan, prompt_hash
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.generation import Generation, Reroute
from hasten.orchestrator.guard.guarded import Guarded
from hasten.orchestrator.guard.rules import NOTE
from hasten.orchestrator.means import Means
from hasten.orchestrator.replay import done_of
from hasten.orchestrator.stages import Stages
from hasten.orchestrator.verification.afterword import Afterword


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """All that a generation needs."""

    routed: Routed
    retrieved: Retrieved
    compressed: Compressed
    vector: bytes | None


class Completion:
    """Generates the answer of one flight and stores it (`stored` says whether it was). What has `begun` elsewhere
    goes on with the same prompt or fails."""

    def __init__(
        self,
        means: Means,
        request: ChatRequest,
        plan: Plan,
        flight: Flight,
        stages: Stages,
        begun: Resume | None = None,
    ) -> None:
        self._means, self._freshness, self._begun = means, means.freshness, begun
        self._request, self._plan, self._flight, self._stages = request, plan, flight, stages
        self._compressed: Compressed | None = None
        self._used: list[Passage] = []
        self.stored = False

    async def resume(self) -> None:
        """Goes on from the text that a lost replica had generated: same model, identical messages."""
        flight = self._flight
        if not flight.model:
            raise Failed("incomplete", "the replica that led this answer was lost", retry_after_ms=1000)
        routed = await self._stages.route(None, model=flight.model)
        self._note_route(routed, flight.prompt)
        await self._stream(routed, flight.prompt, Retrieved(), None)

    async def generate(self, prepared: Prepared) -> None:
        """Streams the answer to a prompt that has been prepared, and stores it."""
        flight, retrieved, compressed = self._flight, prepared.retrieved, prepared.compressed
        self._compressed = compressed
        if self._begun is not None:
            self._repeat(self._begun, prepared)
        if self._request.knowledge:
            flight.read_seq = min(flight.read_seq, retrieved.read_seq)
            read = [*retrieved.tags, *(tag for one in retrieved.passages for tag in one.tags)]
            flight.tags = list(dict.fromkeys([*flight.tags, *read]))
        self._note_route(prepared.routed, compressed.messages)
        used = used_of(retrieved.passages, compressed)
        if self._request.knowledge:
            self._note_sources(used, retrieved)
        sizes = {"tokens_before": compressed.tokens_before, "tokens_after": compressed.tokens_after}
        parts = [msgspec.to_builtins(part) for part in compressed.parts] if self._request.explain else []
        self._flight.note("compress", {**sizes, "stable_tokens": compressed.stable_tokens, "parts": parts})
        flight.sources = _sources(used)["passages"]
        self._used = used
        await self._stream(prepared.routed, compressed.messages, retrieved, prepared.vector)

    def _repeat(self, begun: Resume, prepared: Prepared) -> None:
        """Says what the reader has been shown, which the generation goes on from; raises Failed for another prompt."""
        if begun.prompt != prompt_hash(prepared.compressed.messages):
            changed = "what the answer was made of has changed: it cannot be gone on with, ask anew"
            raise Failed("incomplete", changed, retry_after_ms=0)
        for text in begun.shown:
            self._flight.text(text)

    async def _stream(self, routed: Routed, messages: list[Turn], retrieved: Retrieved, vector: bytes | None) -> None:
        means = self._means
        flight = self._flight
        guarded = Guarded(means.guard.of(flight.tenant), flight.tenant, lambda: flight.deadline_ms, flight.pass_on)
        generation = Generation(means.bus, flight, self._request, means.settings, means.hedges, guarded)
        reroute = Reroute(self._stages, retrieved.passages, vector, self._note_route)
        try:
            answer = await generation.run(routed, messages, reroute)
        finally:
            guarded.close()
        if found := guarded.found:
            flight.note(NOTE, found)
        after = Afterword(means.settings, means.checks, means.shelf, means.guard.of(flight.tenant), flight)
        used = self._used if reroute.compressed is None else used_of(retrieved.passages, reroute.compressed)
        await after.say(self._plan.fingerprint.text, answer, used)
        await self._finish(answer, after.passed, [*guarded.kept, *after.notes], vector)

    async def _finish(self, answer: Answer, passed: bool, kept: list[dict[str, Any]], vector: bytes | None) -> None:
        """Ends the stream, then stores the answer with the notes to keep, unless something it depends on changed
        meanwhile or it has not `passed`."""
        flight = self._flight
        fresh = self._freshness.fresh(flight.tenant, flight.tags, flight.read_seq)
        keeps = fresh and passed and not flight.volatile
        if not keeps:
            reason = "stale" if not fresh else "volatile" if flight.volatile else "verification"
            flight.timeline.skip("store", reason)
            self._flight.note("cache", {"hit": None, "stored": False, "reason": reason})
        flight.say(done_of(flight, answer, "miss"))
        if self._compressed is not None:
            self._means.on_prompt(flight, self._compressed, answer, self._request.tools)
        if self._plan.store and keeps:
            sources = [{"kind": "sources", "data": {"passages": flight.sources}}] if flight.sources else []
            put = await self._stages.put(msgspec.structs.replace(answer, notes=[*sources, *kept]), vector)
            self.stored = put is not None
            self._means.recent.forget(flight.tenant, self._plan.fingerprint.key)

    def _note_route(self, routed: Routed, messages: list[Turn]) -> None:
        fields = ("model", "worker", "reason", "confidence", "difficulty", "expected_ttft_ms", "over_budget", "cascade")
        data = {name: getattr(routed, name) for name in fields} | {"prompt": prompt_hash(messages)}
        self._flight.note("route", {**data, "features": routed.features} if self._request.explain else data)

    def _note_sources(self, used: list[Passage], retrieved: Retrieved) -> None:
        about = {name: said for name in ("missing", "skipped") if (said := getattr(retrieved, name))}
        if retrieved.reranking is not None:
            about["rerank"] = msgspec.to_builtins(retrieved.reranking)
        self._flight.note("sources", {**_sources(used), **about})


def used_of(passages: list[Passage], compressed: Compressed) -> list[Passage]:
    """The passages of a prompt in the order of their numbers there."""
    kept = set(compressed.used)
    return [passage for passage in passages if passage.id in kept]


def _sources(used: list[Passage]) -> dict[str, Any]:
    fields = ("id", "collection", "document", "title", "url", "score", "version", "start", "end")
    return {"passages": [{name: getattr(one, name) for name in fields} for one in used]}
