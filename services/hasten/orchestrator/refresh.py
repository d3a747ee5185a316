"""Makes answers anew that are about to expire, or have expired and may still be served: once, whoever asks for them."""

import asyncio
import contextlib
import time
from collections.abc import Callable

from hasten.deadline import now_ms
from hasten.messages.cache import CacheHit
from hasten.messages.chat import ChatRequest, Done
from hasten.orchestrator.domain import Plan, lease_key, refresh_due, refreshing
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.lease import KEPT_S, Lease, Leases
from hasten.telemetry import counter

MOST = 1024
"""Questions whose last refresh is remembered."""
Launch = Callable[[ChatRequest, Plan, str, str, Lease | None], Flight]
_refreshes = counter("refreshes_total", "Answers to be made anew before their end, by what became of it", "outcome")


class Refresher:
    """Starts background flights under the leases that other replicas respect: one for a question at a time.

    A question is looked at again KEPT_S after the last time, sooner if its answers live shorter. A hit that is older
    than the last flight of its question is only a memory that has not been replaced yet.
    """

    def __init__(self, leases: Leases, launch: Launch, refresh_s: float) -> None:
        self._leases, self._launch, self._refresh_s = leases, launch, refresh_s
        self._looked: dict[tuple[str, str], float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def consider(self, request: ChatRequest, plan: Plan, tenant: str, epoch: str, hit: CacheHit) -> None:
        """Takes note of a hit that was served, and starts what is due; does not wait."""
        if not plan.store or not refresh_due(hit, self._refresh_s):
            return
        question, now_s = (tenant, plan.fingerprint.key), time.monotonic()
        if now_s - self._looked.get(question, float("-inf")) < min(KEPT_S, (hit.age_s + hit.lives_s) / 2):
            return
        self._looked.pop(question, None)
        self._looked[question] = now_s
        if len(self._looked) > MOST:
            del self._looked[next(iter(self._looked))]
        made_ms = now_ms() - hit.age_s * 1000
        task = asyncio.get_running_loop().create_task(self._refresh(request, tenant, epoch, made_ms))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _refresh(self, request: ChatRequest, tenant: str, epoch: str, made_ms: float) -> None:
        anew, plan = refreshing(request)
        key = lease_key(tenant, plan, epoch)
        known = await self._leases.look(key)
        if known is not None and (known.word.leader or known.word.since_ms >= made_ms):
            _refreshes.labels("elsewhere").inc()
            return
        lease = await self._leases.claim(key, quiet=True)
        if lease is not None and not lease.held:
            _refreshes.labels("elsewhere").inc()
            return
        flight = self._launch(anew, plan, tenant, key, lease)
        last: object = None
        async with contextlib.aclosing(flight.events()) as events:
            async for event in events:
                last = event
        _refreshes.labels("done" if isinstance(last, Done) else "failed").inc()

    async def close(self) -> None:
        """Gives up what is being refreshed, unless others read along."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
