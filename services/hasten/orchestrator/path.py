"""The path of one request: whatever can answer without a model does, and stages that need not wait do not."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from hasten.messages.cache import CacheHit, CacheMiss
from hasten.messages.chat import ChatRequest
from hasten.messages.resume import Resume
from hasten.messages.retrieve import Retrieved
from hasten.orchestrator.completion import Completion, Prepared
from hasten.orchestrator.domain import Plan
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.guard.guarded import guarded
from hasten.orchestrator.lease import Lease
from hasten.orchestrator.means import Means
from hasten.orchestrator.permission import forbidden
from hasten.orchestrator.relay import Relay
from hasten.orchestrator.replay import replay
from hasten.orchestrator.share import Share
from hasten.orchestrator.stages import Stages
from hasten.orchestrator.steady import steady


class Path:
    """Takes one flight from its first lookup to its end (`run`), and stores what it brought.

    `share` is its part in what other replicas do; `on_hit` is called with each hit that is served. With `begun` it goes
    on with an answer that its reader has the beginning of: what would not begin so is left alone, and a generation has
    the same prompt and model or none is made.
    """

    def __init__(
        self,
        means: Means,
        request: ChatRequest,
        plan: Plan,
        flight: Flight,
        share: Share,
        on_hit: Callable[[CacheHit], None],
        begun: Resume | None = None,
    ) -> None:
        request = steady(request)
        self._means, self._settings, self._freshness = means, means.settings, means.freshness
        self._request, self._plan, self._flight = request, plan, flight
        self._share, self._on_hit, self._begun = share, on_hit, begun
        self._stages = Stages(means.bus, means.settings, request, plan, flight)
        self._completion = Completion(means, request, plan, flight, self._stages, begun)
        self._tasks: list[asyncio.Task[Any]] = []
        self._exact_task: asyncio.Task[CacheHit | CacheMiss] | None = None

    async def run(self, flight: Flight) -> None:
        """Says everything on the flight, ending with Done; raises Failed."""
        try:
            hit = await self._exact()
            if hit is not None:
                await self._serve(hit)
            elif (prepared := await self._lead()) is not None:
                await self._completion.generate(prepared)
        finally:
            for task in self._tasks:
                task.cancel()
            self._share.end(stored=self._completion.stored)

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
                await self._serve(hit)
                return None
        return await work

    async def _follow(self, lease: Lease | None) -> Prepared | None:
        """Reads along with the replica that leads; when that is lost, goes on from its text or starts anew."""
        flight, relay = self._flight, Relay(self._means.bus, self._flight, self._freshness)
        self._share.follows()
        while lease is not None and not lease.held:
            outcome = await relay.follow(lease)
            if outcome == "ended":
                return None
            alone = outcome == "apart" or self._begun is not None
            lease = None if alone else await self._share.take(lease)
        flight.followed = False
        if flight.chunks:
            await self._completion.resume()
            return None
        flight.tags, flight.read_seq = list(self._plan.tags), self._freshness.applied
        if (hit := await self._exact()) is not None:
            await self._serve(hit)
            return None
        return await self._together()

    def remembered(self) -> CacheHit | None:
        """The hit that the cache confirmed a moment ago, if nothing that it depends on has changed since, and it can be
        served as it is."""
        if not self._plan.read_exact:
            return None
        tenant, key = self._flight.tenant, self._plan.fingerprint.key
        hit = self._means.recent.find(tenant, key, self._request.cache.max_age_s, time.monotonic())
        return (
            hit
            if hit is not None
            and self._freshness.fresh(tenant, [*hit.tags, *self._request.cache.tags], hit.read_seq)
            and self._begins_as_shown(hit)
            and self._means.guard.of(tenant).cover(hit.answer)
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
            self._means.recent.remember(self._flight.tenant, self._plan.fingerprint.key, found, time.monotonic())
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
                    await self._serve(hit)
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

    async def _serve(self, hit: CacheHit) -> None:
        """Ends the flight with a stored answer, read again by the rules if it was made under others."""
        flight = self._flight
        rules = self._means.guard.of(flight.tenant)
        if not rules.cover(hit.answer):
            answer = await guarded(hit.answer, rules, flight.tenant, flight.deadline_ms)
            hit = msgspec.structs.replace(hit, answer=answer)
        self.serve(hit)

    def serve(self, hit: CacheHit) -> None:
        """Ends the flight with a stored answer as it is."""
        self._on_hit(hit)
        replay(self._flight, hit, self._settings.replay_words)


def _retrieved(task: asyncio.Task[Any]) -> None:
    """Marks the exception of a task that nobody waits for any more as seen."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()
