"""Explains where the answer to a request would come from: the plan, and the lookups that its path would make.

It embeds the question and asks the cache; it generates, joins and stores nothing.
"""

from msgspec.structs import replace

from hasten.bus import Bus
from hasten.fingerprint import parts_of, short
from hasten.messages.cache import CACHE_LOOKUP, CacheHit, CacheMiss
from hasten.messages.chat import ChatRequest
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.explain import Explanation, Permission
from hasten.orchestrator.domain import Plan, plan_of
from hasten.orchestrator.permission import forbidden
from hasten.orchestrator.stages import lookup_of
from hasten.service import Call


class Explainer:
    """Answers EXPLAIN."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def explain(self, request: ChatRequest, call: Call) -> Explanation:
        """Where the answer would come from; raises Failed(unsupported) for a request that none can be given to."""
        plan = plan_of(request)
        may_not = forbidden(request, plan)
        vector = None
        if plan.fingerprint.single_turn:
            vector = await self._vector(plan.fingerprint.text, call)
            if vector is None:
                may_not.setdefault("meaning", "the question cannot be embedded: too long, or no embedder answers")
        reply = await self._lookup(request, plan, vector, call)
        return concluded(request, plan, may_not, reply)

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
