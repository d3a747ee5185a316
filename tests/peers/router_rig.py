"""What routers hear, said by a test as workers and orchestrators would: statuses, and how attempts went."""

import itertools
from typing import Any

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.attempt import ATTEMPTED, Attempted
from hasten.messages.generate import STATUS, Status
from hasten.messages.route import MODELS, ROUTE, ModelInfo, ModelList, Models, Route

EASY, HARD = "What is the price of the Basic plan?", "Explain why and compare the trade-offs."
AGO_MS = 3000
"""Attempts of a test ended so long ago that every replica's figures include them."""
PATIENCE_S = 60


class Workers:
    """Announces workers as they would themselves."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self._seq = bus, 0

    async def say(self, slug: str, worker: str, **fields: Any) -> None:
        self._seq += 1
        own = {"seq": self._seq, "started_ms": 1, "state": "ready", "engine": "sim", "model": slug}
        body = Status(**{**own, "slots": 64, "queue_limit": 64, **fields})
        await self._bus.publish(STATUS, body, slug=slug, worker=worker)
        await self._bus.flush()


class Attempts:
    """Says how attempts went, as one orchestrator would."""

    def __init__(self, bus: Bus, source: str = "o1") -> None:
        self._bus, self._source = bus, source
        self._seq = itertools.count(1)

    async def say(self, count: int, slug: str, **fields: Any) -> None:
        for _ in range(count):
            await self._bus.publish(ATTEMPTED, attempted(self._source, next(self._seq), **fields), slug=slug)
        await self._bus.flush()


def attempted(source: str = "o1", seq: int = 1, *, ago_ms: float = AGO_MS, **fields: Any) -> Attempted:
    plain = {"flight": f"{source}-{seq}", "worker": "w1", "outcome": "done", **fields}
    return Attempted(source=source, seq=seq, at_ms=now_ms() - ago_ms, **plain)


async def ask(bus: Bus, text: str = EASY, *, request_id: str | None = None, **fields: Any) -> Any:
    deadline_ms = now_ms() + PATIENCE_S * 1000
    body = Route(text=text, **fields)
    return await bus.request(ROUTE, body, request_id=request_id, tenant="acme", deadline_ms=deadline_ms)


async def listed(bus: Bus) -> ModelList:
    reply = await bus.request(MODELS, Models(), tenant="acme", deadline_ms=now_ms() + PATIENCE_S * 1000)
    assert isinstance(reply, ModelList)
    return reply


async def figures(bus: Bus, slug: str) -> ModelInfo:
    return next(info for info in (await listed(bus)).models if info.slug == slug)


def samples(router: Any, slug: str) -> int:
    """How many first-token times a replica counts for a model."""
    models: list[dict[str, Any]] = router.report()["models"]
    return next(int(one.get("samples", 0)) for one in models if one["slug"] == slug)
