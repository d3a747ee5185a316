"""The path of one request: whatever can answer without a model does, and stages that need not wait do not."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from hasten.bus import Bus
from hasten.freshness import Freshness
from hasten.messages.cache import Answer, CacheHit, CacheMiss
from hasten.messages.chat import ChatRequest, Turn
from hasten.messages.compress import Compressed
from hasten.messages.failure import Failed
from hasten.messages.resume import Resume
from hasten.messages.retrieve import Passage, Retrieved
from hasten.messages.route import Routed
from hasten.orchestrator.domain import Plan, prompt_hash
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.generation import Generation, Reroute
from hasten.orchestrator.hedge import Hedges
from hasten.orchestrator.lease import Lease
from hasten.orchestrator.meter import Tools
from hasten.orchestrator.permission import forbidden
from hasten.orchestrator.recent import Recent
from hasten.orchestrator.relay import Relay
from hasten.orchestrator.replay import done_of, replay
from hasten.orchestrator.settings import Settings
from hasten.orchestrator.share import Share
from hasten.orchestrator.stages import Stages
from hasten.orchestrator.steady import steady


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """All that a generation needs."""

    routed: Routed
    retrieved: Retrieved
    compressed: Compressed
    vector: bytes | None


class Path:
    """Takes one flight from its first lookup to its end (`run`), and stores what it brought.

    `share` is its part in what other replicas do; `on_hit` is called with each hit that is served, `on_prompt` with the
    prompt of an answer that was generated; `hedges` is the
    budget for second attempts, one for the whole replica. With `begun` it goes on with an answer that its reader has
    the beginning of: what would not begin so is left alone, and a generation has the same prompt and model or none is
    made.
    """

    def __init__(
        self,
        bus: Bus,
        settings: Settings,
        freshness: Freshness,
        recent: Recent,
        request: ChatRequest,
        plan: Plan,
        flight: Flight,
        share: Share,
        on_hit: Callable[[CacheHit], None],
        on_prompt: Callable[[Flight, Compressed, Answer, Tools], None],
        hedges: Hedges,
        begun: Resume | None = None,
    ) -> None:
        request = steady(request)
        self._bus, self._settings, self._freshness, self._recent = bus, settings, freshness, recent
        self._request, self._plan, self._flight = request, plan, flight
        self._share, self._on_hit, self._on_prompt = share, on_hit, on_prompt
        self._hedges, self._begun = hedges, begun
        self._compressed: Compressed | None = None
        self._stages = Stages(bus, settings, request, plan, flight)
        self._tasks: list[asyncio.Task[Any]] = []
        self._exact_task: asyncio.Task[CacheHit | CacheMiss] | None = None
        self._stored = False

    async def run(self, flight: Flight) -> None:
        """Says everything on the flight, ending with Done; raises Failed."""
        try:
            hit = await self._exact()
            if hit is not None:
                self.serve(hit)
            elif (prepared := await self._lead()) is not None:
                await self._generate(prepared)
        finally:
            for task in self._tasks:
                task.cancel()
            self._share.end(stored=self._stored)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(_retrieved)
        self._tasks.append(task)
        return task

    async def _exact(self) -> CacheHit | None:
        """Waits a moment for the exact lookup; a slower one goes on beside the embedding and is asked again there."""
        if not self._plan.read_exact:
            return None
        self._exact_task = self._spawn(self._stages.exact())
        await asyncio.wait([self._exact_task], timeout=self._settings.exact_wait_ms / 1000)
        return self._hit_of(self._exact_task)

    async def _claim(self) -> Lease | None:
        """Claims the lease as soon as the exact lookup has missed; while that is slow, looks whom one could follow."""
        if self._exact_task is not None and not self._exact_task.done():
            if (lease := await self._share.led()) is not None:
                return lease
            await asyncio.wait([self._exact_task])
        if self._begun is not None:
            return await self._share.led()
        return await self._share.claim() if self._hit_of(self._exact_task) is None else None

    async def _lead(self) -> Prepared | None:
        """Prepares a generation while the lease is claimed; None when the flight has ended without one of ours."""
        work: asyncio.Task[Prepared | None] = self._spawn(self._together())
        claim = self._spawn(self._claim())
        await asyncio.wait([work, claim], return_when=asyncio.FIRST_COMPLETED)
        since = self._flight.watch.elapsed_ms()
        lease = None if self._flight.ended else await claim
        self._flight.watch.record("lease", since)
        if self._flight.ended:
            return None
        if lease is not None and not lease.held:
            work.cancel()
            return await self._follow(lease)
        if lease is not None and lease.before is not None and lease.before.stored and self._plan.read_exact:
            hit = self._usable(await self._stages.exact(), by_key=True)
            if hit is not None and not self._flight.ended:
                self.serve(hit)
                return None
        return await work

    async def _follow(self, lease: Lease | None) -> Prepared | None:
        """Reads along with the replica that leads; when that is lost, goes on from its text or starts anew."""
        flight, relay = self._flight, Relay(self._bus, self._flight, self._freshness)
        self._share.follows()
        while lease is not None and not lease.held:
            outcome = await relay.follow(lease)
            if outcome == "ended":
                return None
            alone = outcome == "apart" or self._begun is not None
            lease = None if alone else await self._share.take(lease)
        flight.followed = False
        if flight.chunks:
            await self._resume()
            return None
        flight.tags, flight.read_seq = list(self._plan.tags), self._freshness.applied
        if (hit := await self._exact()) is not None:
            self.serve(hit)
            return None
        return await self._together()

    async def _resume(self) -> None:
        """Goes on from the text that a lost replica had generated: same model, identical messages."""
        flight = self._flight
        if not flight.model:
            raise Failed("incomplete", "the replica that led this answer was lost", retry_after_ms=1000)
        routed = await self._stages.route(None, model=flight.model)
        self._note_route(routed, flight.prompt)
        await self._stream(routed, flight.prompt, Retrieved(), None)

    def remembered(self) -> CacheHit | None:
        """The hit that the cache confirmed a moment ago, if nothing that it depends on has changed since."""
        if not self._plan.read_exact:
            return None
        tenant, key = self._flight.tenant, self._plan.fingerprint.key
        hit = self._recent.find(tenant, key, self._request.cache.max_age_s, time.monotonic())
        return (
            hit
            if hit is not None
            and self._freshness.fresh(tenant, [*hit.tags, *self._request.cache.tags], hit.read_seq)
            and self._begins_as_shown(hit)
            else None
        )

    def _begins_as_shown(self, hit: CacheHit) -> bool:
        return self._begun is None or hit.answer.text.startswith("".join(self._begun.shown))

    def _hit_of(self, task: asyncio.Task[CacheHit | CacheMiss] | None) -> CacheHit | None:
        if task is None or not task.done() or task.cancelled():
            return None
        return self._usable(task.result(), by_key=task is self._exact_task)

    def _usable(self, found: CacheHit | CacheMiss, *, by_key: bool) -> CacheHit | None:
        """The hit if it may be served: nothing has changed since, and an expired one is only for who may replace it."""
        if isinstance(found, CacheMiss):
            if self._flight.miss is None or not by_key:
                self._flight.miss = found
            return None
        if (found.stale and not self._plan.store) or not self._begins_as_shown(found):
            return None
        tags = [*found.tags, *self._request.cache.tags]
        if not self._freshness.fresh(self._flight.tenant, tags, found.read_seq):
            self._flight.miss = CacheMiss(reason="stale", nearest=found.entry_id, similarity=found.similarity)
            return None
        if found.kind == "exact" and not found.stale:
            self._recent.remember(self._flight.tenant, self._plan.fingerprint.key, found, time.monotonic())
        return found

    async def _together(self) -> Prepared | None:
        near, whole = await self._stages.embed() if self._plan.embeds else (None, False)
        vector = near if whole else None
        semantic = self._spawn(self._stages.semantic(vector)) if vector and self._plan.read_semantic else None
        retrieve = self._spawn(self._retrieve(near)) if self._request.knowledge else None
        route = self._spawn(self._stages.route(vector, model=self._begun.model if self._begun else None))
        lookups = {lookup for lookup in (self._exact_task, semantic) if lookup is not None}
        while lookups:
            answered, lookups = await asyncio.wait(lookups, return_when=asyncio.FIRST_COMPLETED)
            for lookup in answered:
                if (hit := self._hit_of(lookup)) is not None:
                    self.serve(hit)
                    return None
        if self._request.explain:
            self._flight.note("cache", {"hit": None, **self._why_not()})
        routed, retrieved = await route, await retrieve if retrieve else Retrieved()
        routed, compressed = await self._stages.compress(routed, retrieved.passages)
        return Prepared(routed=routed, retrieved=retrieved, compressed=compressed, vector=vector)

    async def _retrieve(self, vector: bytes | None) -> Retrieved:
        """The passages. What no change event speaks of is joined no more from here on: routing may take its time."""
        retrieved = await self._stages.retrieve(vector)
        self._flight.volatile = bool(retrieved.volatile)
        return retrieved

    def _why_not(self) -> dict[str, Any]:
        """Why the cache has not answered, and what the plan forbids."""
        miss = {} if self._flight.miss is None else msgspec.to_builtins(self._flight.miss)
        return {**miss, "may_not": forbidden(self._request, self._plan)}

    async def _generate(self, prepared: Prepared) -> None:
        flight, retrieved, compressed = self._flight, prepared.retrieved, prepared.compressed
        self._compressed = compressed
        if self._begun is not None:
            self._repeat(self._begun, prepared)
        if self._request.knowledge:
            flight.read_seq = min(flight.read_seq, retrieved.read_seq)
            read = [*retrieved.tags, *(tag for one in retrieved.passages for tag in one.tags)]
            flight.tags = list(dict.fromkeys([*flight.tags, *read]))
        self._note_route(prepared.routed, compressed.messages)
        kept = set(compressed.used)
        used = [passage for passage in retrieved.passages if passage.id in kept]
        if self._request.knowledge:
            self._note_sources(used, retrieved)
        sizes = {"tokens_before": compressed.tokens_before, "tokens_after": compressed.tokens_after}
        parts = [msgspec.to_builtins(part) for part in compressed.parts] if self._request.explain else []
        self._flight.note("compress", {**sizes, "stable_tokens": compressed.stable_tokens, "parts": parts})
        flight.sources = _sources(used)["passages"]
        await self._stream(prepared.routed, compressed.messages, retrieved, prepared.vector)

    def _repeat(self, begun: Resume, prepared: Prepared) -> None:
        """Says what the reader has been shown, which the generation goes on from; raises Failed for another prompt."""
        if begun.prompt != prompt_hash(prepared.compressed.messages):
            changed = "what the answer was made of has changed: it cannot be gone on with, ask anew"
            raise Failed("incomplete", changed, retry_after_ms=0)
        for text in begun.shown:
            self._flight.text(text)

    async def _stream(self, routed: Routed, messages: list[Turn], retrieved: Retrieved, vector: bytes | None) -> None:
        generation = Generation(self._bus, self._flight, self._request, self._settings, self._hedges)
        reroute = Reroute(self._stages, retrieved.passages, vector, self._note_route)
        answer = await generation.run(routed, messages, reroute)
        await self._finish(answer, vector)

    async def _finish(self, answer: Answer, vector: bytes | None) -> None:
        """Ends the stream, then stores the answer unless something it depends on changed meanwhile."""
        flight = self._flight
        fresh = self._freshness.fresh(flight.tenant, flight.tags, flight.read_seq)
        if not fresh or flight.volatile:
            reason = "volatile" if fresh else "stale"
            flight.timeline.skip("store", reason)
            self._flight.note("cache", {"hit": None, "stored": False, "reason": reason})
        flight.say(done_of(flight, answer, "miss"))
        if self._compressed is not None:
            self._on_prompt(flight, self._compressed, answer, self._request.tools)
        if self._plan.store and fresh and not flight.volatile:
            notes = [{"kind": "sources", "data": {"passages": flight.sources}}] if flight.sources else []
            put = await self._stages.put(msgspec.structs.replace(answer, notes=notes), vector)
            self._stored = put is not None
            self._recent.forget(flight.tenant, self._plan.fingerprint.key)

    def serve(self, hit: CacheHit) -> None:
        """Ends the flight with a stored answer."""
        self._on_hit(hit)
        replay(self._flight, hit, self._settings.replay_words)

    def _note_route(self, routed: Routed, messages: list[Turn]) -> None:
        fields = ("model", "worker", "reason", "confidence", "difficulty", "expected_ttft_ms", "over_budget", "cascade")
        data = {name: getattr(routed, name) for name in fields} | {"prompt": prompt_hash(messages)}
        self._flight.note("route", {**data, "features": routed.features} if self._request.explain else data)

    def _note_sources(self, used: list[Passage], retrieved: Retrieved) -> None:
        about = {name: said for name in ("missing", "skipped") if (said := getattr(retrieved, name))}
        if retrieved.reranking is not None:
            about["rerank"] = msgspec.to_builtins(retrieved.reranking)
        self._flight.note("sources", {**_sources(used), **about})


def _sources(used: list[Passage]) -> dict[str, Any]:
    fields = ("id", "collection", "document", "title", "url", "score", "version", "start", "end")
    return {"passages": [{name: getattr(one, name) for name in fields} for one in used]}


def _retrieved(task: asyncio.Task[Any]) -> None:
    """Marks the exception of a task that nobody waits for any more as seen."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()
