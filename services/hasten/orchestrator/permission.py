"""Says in words what the plan of a request forbids, and what came of its lookups; pure."""

from typing import Any

from hasten.messages.cache import CacheMiss
from hasten.messages.chat import SYSTEM_ROLES, ChatRequest
from hasten.messages.explain import Permission
from hasten.orchestrator.domain import Plan


def forbidden(request: ChatRequest, plan: Plan) -> dict[Permission, str]:
    """What this request may not do, with the reason."""
    general = _in_general(request, plan)
    found: dict[Permission, str] = {}
    if not plan.read_exact:
        found["exact"] = found["share"] = general
    if not plan.read_semantic:
        found["meaning"] = general if not plan.read_exact else _by_key_only(request, plan)
    if not plan.store:
        found["store"] = "cache.store is false" if not request.cache.store else general
    return found


def skipped(request: ChatRequest, plan: Plan) -> dict[str, str]:
    """The stages of a request that its plan has no use for, with the reason."""
    may_not = forbidden(request, plan)
    named = {"exact": "exact", "meaning": "semantic", "share": "lease", "store": "store"}
    found = {named[what]: why or "it may not be shared" for what, why in may_not.items()}
    if not request.knowledge:
        found["retrieve"] = "no knowledge is asked for"
    if not plan.embeds:
        found["embed"] = "nobody wants the vector of the question"
    return found


def _in_general(request: ChatRequest, plan: Plan) -> str:
    if request.cache.mode == "off":
        return "cache.mode is off"
    if request.cache.mode == "refresh":
        return "cache.mode is refresh: the answer is made anew and replaces the stored one"
    return f"temperature {request.temperature:g} is above 0, and cache.mode is not exact" if request.temperature else ""


def _by_key_only(request: ChatRequest, plan: Plan) -> str:
    if request.cache.mode == "exact":
        return "cache.mode is exact"
    turns = sum(turn.role not in SYSTEM_ROLES for turn in request.messages)
    if turns > 1:
        return f"a conversation of {turns} turns must match exactly"
    if plan.fingerprint.single_turn:
        return "the message goes on from another that is not there"
    return "the last message is not the plain text of a user"


def outcome_of(source: str, hit: dict[str, Any], miss: CacheMiss | None, *, asked: bool) -> dict[str, Any]:
    """What Finished says of the cache: the entry and similarity of a hit, or the reason of a miss (`off` when the plan
    did not ask). What the leader of a shared generation was told by the cache is not told again."""
    if source in ("exact", "semantic"):
        return {"entry_id": str(hit.get("entry_id", "")), "similarity": hit.get("similarity")}
    if source != "miss":
        return {}
    if miss is None:
        return {"reason": "unavailable" if asked else "off"}
    return {
        "reason": miss.reason,
        "guard": miss.guard or "",
        "entry_id": miss.nearest or "",
        "similarity": None if miss.similarity is None else round(miss.similarity, 6),
    }
