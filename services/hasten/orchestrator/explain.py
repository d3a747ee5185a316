"""Explains where the answer to a request would come from: the plan, and the lookups that its path would make.

It embeds the question, asks the cache, and makes the prompt; it generates, joins and stores nothing.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from hasten.bus import Bus
from hasten.fingerprint import parts_of, short
from hasten.messages.cache import CACHE_LOOKUP, CacheHit, CacheMiss
from hasten.messages.chat import ChatRequest
from hasten.messages.compress import Part
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.explain import Explanation, Permission, Prompted
from hasten.messages.failure import Failed
from hasten.orchestrator.domain import Plan, plan_of
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.permission import forbidden
from hasten.orchestrator.results import Results
from hasten.orchestrator.settings import Settings
from hasten.orchestrator.stages import Stages, lookup_of
from hasten.orchestrator.steady import steady
from hasten.service import Call

T = TypeVar("T")


class Explainer:
    """Answers EXPLAIN."""

    def __init__(self, bus: Bus, settings: Settings, results: Results) -> None:
        self._bus, self._settings, self._results = bus, settings, results

    async def explain(self, request: ChatRequest, call: Call) -> Explanation:
        """Where the answer would come from; raises Failed(unsupported) for a request that none can be given to."""
        plan = plan_of(request)
        may_not = forbidden(request, plan)
        vector = None
        if plan.fingerprint.single_turn:
            vector = await self._vector(plan.fingerprint.text, call)
            if vector is None:
                may_not.setdefault("meaning", "the question cannot be embedded: too long, or no embedder answers")
        reply, prompt = await asyncio.gather(
            self._lookup(request, plan, vector, call), self._prompt(steady(request), plan, vector, call)
        )
        return replace(concluded(request, plan, may_not, reply), prompt=prompt)

    async def _vector(self, text: str, call: Call) -> bytes | None:
        reply = await self._bus.request(
            EMBED, Embed(texts=[text]), tenant=call.tenant, deadline_ms=call.deadline_ms, request_id=call.request_id
        )
        usable = isinstance(reply, Embedded) and not (reply.truncated and reply.truncated[0])
        return reply.vectors[0] if usable else None

    async def _lookup(
        self, request: ChatRequest, plan: Plan, vector: bytes | None, call: Call
    ) -> CacheHit | CacheMiss | None:
        """The cache's account, None when no cache answers."""
        body = replace(lookup_of(request, plan, vector, explain=True), counted=False)
        reply = await self._bus.request(
            CACHE_LOOKUP, body, tenant=call.tenant, deadline_ms=call.deadline_ms, request_id=call.request_id
        )
        return reply if isinstance(reply, CacheHit | CacheMiss) else None

    async def _prompt(self, request: ChatRequest, plan: Plan, vector: bytes | None, call: Call) -> Prompted:
        """What would be sent to a model, with what became of each part; a service that does not answer is named."""
        flight = Flight(call.tenant, call.deadline_ms, tags=[], read_seq=0, results=self._results)
        stages = Stages(self._bus, self._settings, request, plan, flight)
        missing: dict[str, str] = {}
        near = vector if plan.query == plan.fingerprint.text else None
        retrieved, routed = await asyncio.gather(
            _or_missing(stages.retrieve(near), "retriever", missing) if request.knowledge else _nothing(),
            _or_missing(stages.route(vector, counted=False), "router", missing),
        )
        if routed is None:
            return Prompted(missing=missing)
        passages = retrieved.passages if retrieved is not None else []
        made = await _or_missing(stages.compress(routed, passages, explain=True), "compressor", missing)
        about = Prompted(
            model=routed.model,
            token_budget=routed.token_budget,
            context_window=routed.context_window,
            missing=missing,
            empty=retrieved.missing if retrieved is not None else [],
            skipped=retrieved.skipped if retrieved is not None else {},
        )
        if made is None:
            return about
        _, compressed = made
        return replace(
            about,
            tokens_before=compressed.tokens_before,
            tokens_after=compressed.tokens_after,
            stable_tokens=compressed.stable_tokens,
            parts=compressed.parts if request.explain else [_without_text(part) for part in compressed.parts],
        )


async def _nothing() -> None:
    """Stands for a stage that the request does not need."""


async def _or_missing(stage: Coroutine[Any, Any, T], service: str, missing: dict[str, str]) -> T | None:
    """What a stage brings; None, with the reason, where it brings nothing."""
    try:
        return await stage
    except Failed as failed:
        missing[service] = f"{failed.failure.code}: {failed.failure.detail}"
        return None


def _without_text(part: Part) -> Part:
    return replace(part, pieces=[replace(piece, text="") for piece in part.pieces])


def concluded(
    request: ChatRequest, plan: Plan, may_not: dict[Permission, str], reply: CacheHit | CacheMiss | None
) -> Explanation:
    """The plan and the cache's account as one verdict: a hit counts only where the plan may take it."""
    made = Explanation(
        outcome="miss",
        reason="unavailable",
        key=short(plan.fingerprint.key),
        partition=short(plan.fingerprint.partition),
        parts=parts_of(request),
        may_not={str(name): why for name, why in may_not.items()},
        tags=plan.tags,
    )
    if reply is None:
        return made
    lookup = reply.explained
    found = replace(made, lookup=lookup)
    if not plan.read_exact:
        return replace(found, reason="off")
    if lookup is not None and lookup.exact == "hit" and lookup.by_key is not None:
        return replace(found, outcome="exact", reason="", entry_id=lookup.by_key.entry_id)
    if isinstance(reply, CacheHit):
        if plan.read_semantic:
            return replace(found, outcome="semantic", reason="", entry_id=reply.entry_id)
        return replace(found, reason=lookup.exact if lookup else "absent")
    by_meaning = plan.read_semantic and "meaning" not in may_not
    return replace(found, reason=reply.reason if by_meaning or lookup is None else lookup.exact)
