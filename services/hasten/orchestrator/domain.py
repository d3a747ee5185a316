"""Decides what a request may do: read the cache, share a generation, be stored, and what it needs of a model."""

import hashlib

import msgspec
from msgspec import structs

from hasten.fingerprint import Fingerprint, fingerprint, prompt_tag
from hasten.messages.cache import CacheHit
from hasten.messages.chat import ChatRequest, Turn
from hasten.messages.failure import Failed
from hasten.messages.needs import needs_of
from hasten.models import AUTO
from hasten.orchestrator.follow_up import goes_on, retrieval_query
from hasten.topics import BadName, checked

CHARS_PER_TOKEN = 3.5
"""Of English text in current tokenizers; only the router's first estimate uses it."""
LAST_SHARE = 0.1
"""The share of an entry's life at whose beginning it is refreshed at the earliest, so that short lives are not spent on
refreshing."""
LOW_PRIORITY = -10
"""Of what nobody waits for; a request has 0 unless it asks for something else."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What one request may do. `flight` is what must be equal for two requests to share one generation, `query` the
    text whose vector the lookup by meaning, the retriever or the router wants. Only what is `searchable` is stored with
    that vector."""

    fingerprint: Fingerprint
    flight: tuple[object, ...]
    read_exact: bool
    read_semantic: bool
    share: bool
    store: bool
    tags: list[str]
    query: str
    searchable: bool
    needs: list[str]
    prompt_tokens: int
    explain: bool = False

    @property
    def embeds(self) -> bool:
        """Whether the question's vector is of use to anybody."""
        return self.read_semantic or bool(self.query)


def plan_of(request: ChatRequest) -> Plan:
    """The plan for a request; raises Failed(unsupported) for what no part of hasten can do.

    Cache off, log-probabilities, and an explicit temperature above 0 without mode exact are neither read, shared nor
    stored; an absent temperature counts as cacheable.
    """
    if request.n > 1:
        raise Failed("unsupported", "n must be 1 on the bus, where a request has one stream: ask n times", param="n")
    print_ = fingerprint(request)
    policy = request.cache
    varies = bool(request.temperature) and policy.mode != "exact"
    usable = policy.mode != "off" and not varies and not request.logprobs
    reads = usable and policy.mode != "refresh"
    alone = print_.single_turn and not goes_on(print_.text)
    semantic = reads and policy.mode == "auto" and alone
    searchable = bool(request.knowledge) or (usable and policy.mode != "exact" and print_.single_turn)
    prompt = prompt_tag(request)
    return Plan(
        fingerprint=print_,
        flight=(
            print_.key,
            policy.mode,
            policy.max_age_s,
            policy.max_distance,
            policy.store,
            policy.ttl_s,
            tuple(policy.tags),
            request.explain,
        ),
        read_exact=reads,
        read_semantic=semantic,
        share=reads,
        store=usable and policy.store,
        tags=[*policy.tags, *(f"collection:{name}" for name in request.knowledge), *([prompt] if prompt else [])],
        query=retrieval_query(request.messages) if searchable or request.model == AUTO else "",
        searchable=searchable and alone,
        needs=needs_of(
            request.messages,
            tools=request.tools,
            response_format=request.response_format,
            logprobs=request.logprobs,
            top_logprobs=request.top_logprobs,
        ),
        prompt_tokens=int(sum(len(turn.text) for turn in request.messages) / CHARS_PER_TOKEN) + 8,
        explain=request.explain,
    )


def check_collections(request: ChatRequest) -> None:
    """Raises Failed(bad_request) for knowledge that no collection can be named."""
    for name in request.knowledge:
        try:
            checked("collection", name)
        except BadName as error:
            raise Failed("bad_request", str(error), param="knowledge") from None


def stops(stop: str | list[str] | None) -> list[str]:
    """The stop sequences as a list; an empty one would stop at the first word."""
    return [one for one in ([stop] if isinstance(stop, str) else stop or []) if one]


def lease_key(tenant: str, plan: Plan, epoch: str) -> str:
    """What replicas agree on for requests that may share one generation, as a hash.

    `epoch` names the stream of changes: what was read in another one is not comparable.
    """
    return hashlib.sha256(msgspec.json.encode([tenant, plan.flight, epoch])).hexdigest()


def prompt_hash(messages: list[Turn]) -> str:
    """What tells the prompt of an answer from any other: an answer that was begun with it goes on with no other."""
    return hashlib.sha256(msgspec.json.encode(messages)).hexdigest()[:32]


def refresh_due(hit: CacheHit, refresh_s: float) -> bool:
    """Whether an answer is made anew while it is still served: it has expired, or will within `refresh_s`."""
    if hit.kind != "exact":
        return False
    return hit.stale or hit.lives_s < min(refresh_s, LAST_SHARE * (hit.age_s + hit.lives_s))


def refreshing(request: ChatRequest) -> tuple[ChatRequest, Plan]:
    """The request, and its plan, that makes an answer anew for everybody: it reads no cache, and nobody's own limits
    of age or distance shorten what is stored. Its flight is the one that a later asker would join."""
    policy = structs.replace(request.cache, max_age_s=None, max_distance=None)
    anew = structs.replace(request, cache=policy, priority=LOW_PRIORITY, explain=False, deadline_ms=None)
    return anew, structs.replace(plan_of(anew), read_exact=False, read_semantic=False)
