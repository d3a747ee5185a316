"""The stages of one request as calls to other services, each timed on the flight and bound by its deadline."""

from typing import Any

from hasten.bus import Bus
from hasten.fingerprint import parts_of
from hasten.messages.cache import CACHE_LOOKUP, CACHE_PUT, Answer, CacheHit, CacheLookup, CacheMiss, CachePut, Stored
from hasten.messages.chat import SYSTEM_ROLES, ChatRequest
from hasten.messages.compress import COMPRESS, Compress, Compressed
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.failure import Failed, Failure
from hasten.messages.retrieve import RETRIEVE, Passage, Retrieve, Retrieved
from hasten.messages.route import ROUTE, Route, Routed
from hasten.orchestrator.attempt import fitted
from hasten.orchestrator.domain import Plan
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.permission import skipped
from hasten.orchestrator.prefix import prefix_of
from hasten.orchestrator.settings import Settings
from hasten.orchestrator.timeline import came_of
from hasten.topics import Topic

_SLOW = frozenset({"embed", "retrieve"})
"""Stages that compute: a busy one is given four times as long, since asking again makes it busier."""
_DOUBLED = 3


class Stages:
    """Asks one service at a time for one flight. A Failure of the cache or the embedder counts as a miss; of any other
    service it ends the flight (raised as Failed)."""

    def __init__(self, bus: Bus, settings: Settings, request: ChatRequest, plan: Plan, flight: Flight) -> None:
        self._bus, self._settings = bus, settings
        self._request, self._plan, self._flight = request, plan, flight
        self._asked = 0
        for stage, why in skipped(request, plan).items():
            flight.timeline.skip(stage, why)

    async def _ask(self, stage: str, topic: Topic, body: Any) -> Any:
        since, flight = self._flight.watch.elapsed_ms(), self._flight
        self._asked += 1
        request_id = flight.id if stage == "route" else f"{flight.id}-{stage}-{self._asked}"
        with flight.timeline.begin("store" if stage == "put" else stage) as mark:
            reply = await self._bus.request(
                topic,
                body,
                tenant=flight.tenant,
                deadline_ms=flight.deadline_ms,
                request_id=request_id,
                again_s=self._again_s(stage),
                headers=mark.headers,
            )
            mark.end(*came_of(reply))
        self._flight.watch.record(stage, since)
        return reply

    def _again_s(self, stage: str) -> list[float]:
        """The silences after which a stage is asked again, each twice the last; none for what stores."""
        first_s = self._settings.again_s * (4 if stage in _SLOW else 1)
        return [] if stage == "put" or first_s <= 0 else [first_s * 2**at for at in range(_DOUBLED + 1)]

    async def _must(self, stage: str, topic: Topic, body: Any) -> Any:
        reply = await self._ask(stage, topic, body)
        if isinstance(reply, Failure):
            raise Failed.of(reply)
        return reply

    async def exact(self) -> CacheHit | CacheMiss:
        """Looks the request up by key; that is explained where no lookup by meaning will be."""
        policy = self._request.cache
        lookup = CacheLookup(
            key=self._plan.fingerprint.key,
            max_age_s=policy.max_age_s,
            tags=policy.tags,
            explain=self._request.explain and not self._plan.read_semantic,
        )
        return await self._lookup("exact", lookup)

    async def semantic(self, vector: bytes) -> CacheHit | CacheMiss:
        """Looks the request up by meaning."""
        lookup = lookup_of(self._request, self._plan, vector, explain=self._request.explain)
        return await self._lookup("semantic", lookup)

    async def _lookup(self, stage: str, lookup: CacheLookup) -> CacheHit | CacheMiss:
        reply = await self._ask(stage, CACHE_LOOKUP, lookup)
        if isinstance(reply, Failure):
            return CacheMiss(reason="unavailable")
        return reply  # type: ignore[no-any-return]

    async def embed(self) -> tuple[bytes | None, bool]:
        """The vector of the question, None when the embedder cannot be had, and whether it is of the whole question:
        where that is too long for the model it serves to search for passages, and for nothing else."""
        reply = await self._ask("embed", EMBED, Embed(texts=[self._plan.query]))
        whole = isinstance(reply, Embedded) and not any(reply.truncated)
        if self._plan.read_semantic and not whole:
            self._flight.timeline.skip("semantic", "the question cannot be embedded as a whole")
        if not isinstance(reply, Embedded) or not reply.vectors:
            return None, False
        return reply.vectors[0], whole

    async def retrieve(self, vector: bytes | None) -> Retrieved:
        """The passages for the question."""
        request = self._request
        body = Retrieve(
            query=self._plan.query,
            knowledge=request.knowledge,
            vector=vector,
            filter=request.filter,
            limit=self._settings.passages,
        )
        reply: Retrieved = await self._must("retrieve", RETRIEVE, body)
        return reply

    async def route(
        self,
        vector: bytes | None,
        *,
        model: str | None = None,
        exclude: list[str] | None = None,
        spare: bool = False,
        above: str = "",
        counted: bool = True,
    ) -> Routed:
        """The model and the worker; with `model` another worker of that very model, with `spare` an idle one, and with
        `above` one of a better model than that. What is not `counted` is only asked for."""
        body = Route(
            text=self._plan.fingerprint.text,
            vector=vector,
            model=model or self._request.model,
            needs=self._plan.needs,
            prompt_tokens=self._plan.prompt_tokens,
            max_tokens=self._request.max_tokens,
            turns=sum(turn.role not in SYSTEM_ROLES for turn in self._request.messages),
            latency_budget_ms=self._settings.latency_budget_ms or None,
            exclude=exclude or [],
            request_id=self._flight.asked,
            prefix=prefix_of(self._flight.tenant, self._request),
            spare=spare,
            above=above,
            counted=counted,
        )
        reply: Routed = await self._must("route", ROUTE, body)
        return reply

    async def compress(
        self, routed: Routed, passages: list[Passage], *, explain: bool = False
    ) -> tuple[Routed, Compressed]:
        """The prompt for the routed model, and the model with the longest answer that fits beside it.

        An answer that is asked to be longer than half of the window takes what the prompt leaves.
        """
        body = Compress(
            messages=self._request.messages,
            passages=passages,
            examples=self._request.examples,
            tokenizer=routed.tokenizer,
            token_budget=routed.token_budget,
            context_window=routed.context_window,
            max_tokens=min(self._request.max_tokens or routed.max_tokens, routed.context_window // 2),
            shares=routed.shares,
            tools=self._request.tools,
            explain=explain,
        )
        reply: Compressed = await self._must("compress", COMPRESS, body)
        return fitted(routed, self._request, reply), reply

    def _ttl_s(self) -> float | None:
        """The shorter of what the operator and the caller ask for; None leaves it to the cache."""
        policy = self._request.cache
        asked = [self._settings.ttl_s or None, policy.max_age_s, policy.ttl_s]
        return min((ttl_s for ttl_s in asked if ttl_s is not None), default=None)

    async def put(self, answer: Answer, vector: bytes | None) -> str | None:
        """Stores the answer behind the version fence; returns the entry's id, or None when it was refused."""
        print_ = self._plan.fingerprint
        body = CachePut(
            key=print_.key,
            partition=print_.partition,
            text=print_.text,
            vector=vector if self._plan.searchable else None,
            answer=answer,
            tags=self._flight.tags,
            read_seq=self._flight.read_seq,
            ttl_s=self._ttl_s(),
            user=self._request.user,
            parts=parts_of(self._request),
        )
        reply = await self._ask("put", CACHE_PUT, body)
        return reply.entry_id if isinstance(reply, Stored) else None


def lookup_of(request: ChatRequest, plan: Plan, vector: bytes | None, *, explain: bool) -> CacheLookup:
    """The lookup by meaning of a request; without a vector, as when its question cannot be embedded, by key."""
    print_, policy = plan.fingerprint, request.cache
    return CacheLookup(
        key=print_.key,
        partition=print_.partition,
        text=print_.text,
        vector=vector,
        max_age_s=policy.max_age_s,
        max_distance=policy.max_distance,
        tags=policy.tags,
        collections=request.knowledge,
        explain=explain,
        parts=parts_of(request) if explain else {},
    )
