"""Answers route and models from what it has heard of workers and of attempts at them; keeps nothing itself."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import nats.errors

from hasten.bus import Bus
from hasten.messages.attempt import SENT, Attempted, Sent
from hasten.messages.failure import Failure
from hasten.messages.generate import STATUS, Status
from hasten.messages.route import MODELS, ROUTE, ModelList, Models, Route, Routed
from hasten.models import Model, ModelTable
from hasten.router.affinity import own
from hasten.router.decision import Decision, cooldown_ms, decide
from hasten.router.estimator import shipped
from hasten.router.failure_memory import FailureMemory
from hasten.router.knowledge import Knowledge, plausible
from hasten.router.memory import Memory, missed
from hasten.router.options import window_of
from hasten.router.settings import Settings
from hasten.service import Call, Service
from hasten.telemetry import Names, counter, gauge, histogram

_decisions = counter("router_decisions_total", "Decisions by model and kind, failures by their code", "model", "kind")
_seconds = histogram("router_decide_seconds", "Time of one decision")
_parked = gauge("router_parked_requests", "Requests that wait for the first worker to have cooled down")
_placed = counter(
    "router_placed_total", "Requests sent to each worker; those beyond the first 64 are other", "model", "worker"
)
_TICK_S = 0.02


class Router:
    """One replica: hears every status and every attempt, and decides by these facts alone."""

    def __init__(self, settings: Settings, bus: Bus, table: ModelTable) -> None:
        self._settings, self._bus, self._table = settings, bus, table
        self._knowledge = Knowledge(table, settings)
        self._failures = FailureMemory()
        keep, keep_s = settings.window_samples + settings.window_samples // 5, settings.window_age_s
        self._memory = Memory(bus, self._on_attempted, keep=keep, keep_s=keep_s, patience_s=settings.learn_s)
        self._news = asyncio.Event()
        self._settled_s = 0.0
        self._sent = self._waiting = 0
        self._names = Names()
        self._service = Service(bus, "router", "Chooses the model and the worker.", report=self.report)
        self._service.answer(ROUTE, self._on_route, limit=settings.limit, waiting=settings.waiting)
        self._service.answer(MODELS, self._on_models, limit=16, waiting=64)
        self._service.listen(STATUS, self._on_status)
        self._service.listen(SENT, self._on_sent)

    async def start(self) -> None:
        """Loads the estimate of difficulty, learns what the other replicas know and subscribes. Until `settle_ms` later
        a request that finds no worker waits for one to say its first word."""
        await asyncio.to_thread(shipped)
        await self._memory.start()
        self._settled_s = time.monotonic() + self._settings.settle_ms / 1000
        await self._service.start()

    async def drain(self) -> None:
        """Stops hearing and answers what was accepted."""
        await self._service.drain()

    async def close(self) -> None:
        """Ends what is left."""
        await self._service.close()
        await self._memory.close()

    def report(self) -> dict[str, Any]:
        """The service's own figures: the table it goes by, the models with their workers and first-token times."""
        listed = self._list()
        models = [msgspec.to_builtins(info) for info in listed.models]
        return {"table": listed.table, "table_problem": listed.problem, "models": models}

    def _list(self) -> ModelList:
        models = self._knowledge.models(time.monotonic(), time.time())
        return ModelList(models=models, table=self._table.digest, problem=self._table.problem)

    def _on_status(self, status: Status, tokens: dict[str, str]) -> None:
        gap = self._knowledge.status(tokens["slug"], tokens["worker"], status, time.monotonic())
        missed.labels("status").inc(gap)
        self._news.set()

    def _on_sent(self, event: Sent, tokens: dict[str, str]) -> None:
        if event.source != self._service.id:
            gap = self._knowledge.sent(tokens["slug"], tokens["worker"], event, time.monotonic())
            missed.labels("sent").inc(gap or 0)

    def _on_attempted(self, slug: str, event: Attempted) -> int | None:
        self._failures.hear(slug, event)
        return self._knowledge.attempted(slug, event, time.monotonic(), time.time())

    async def _on_models(self, _: Models, __: Call) -> ModelList:
        return self._list()

    async def _on_route(self, asked: Route, call: Call) -> Routed | Failure:
        request = msgspec.structs.replace(plausible(asked), prefix=own(call.tenant, asked.prefix))
        until_s = time.monotonic() + self._settings.wait_ms / 1000
        decided = self._decide(request, call)
        while isinstance(decided, Failure) and await self._hope(decided, request, call, until_s):
            decided = self._decide(request, call)
        if isinstance(decided, Failure):
            _decisions.labels("", decided.code).inc()
            return decided
        if not request.counted:
            return routed(decided, request)
        await self._send(decided, request, call)
        model, worker = decided.option.model.name, decided.option.load.name
        _placed.labels(model, self._names.of(worker)).inc()
        _decisions.labels(model, decided.kind).inc()
        return routed(decided, request)

    async def _send(self, decided: Decision, request: Route, call: Call) -> None:
        """Counts the request at its worker, here and at the other replicas."""
        self._sent += 1
        probe = decided.kind == "probe"
        event = Sent(
            source=self._service.id,
            seq=self._sent,
            flight=call.request_id,
            tokens=max(0, request.prompt_tokens - decided.option.cached),
            prefix=dict(request.prefix),
            probe=probe,
        )
        slug, worker = decided.option.model.slug, decided.option.load.name
        self._knowledge.sent(slug, worker, event, time.monotonic())
        with contextlib.suppress(nats.errors.Error):
            await self._bus.publish(SENT, event, slug=slug, worker=worker)

    def _decide(self, request: Route, call: Call) -> Decision | Failure:
        with _seconds.time():
            snapshot = self._knowledge.snapshot(time.monotonic(), time.time(), request.prefix)
            for wanted in self._failures.routes(request, call.tenant, snapshot.loads, time.time()):
                decided = decide(wanted, call.request_id, snapshot, self._settings)
                if isinstance(decided, Decision):
                    break
            return decided

    async def _hope(self, refused: Failure, request: Route, call: Call, until_s: float) -> bool:
        """Whether it is worth deciding again, after the wait that this takes."""
        if refused.code == "unavailable":
            return await self._more_news()
        return refused.code == "overloaded" and await self._cooled(request, call, until_s)

    async def _cooled(self, request: Route, call: Call, until_s: float) -> bool:
        """Waits for the first worker to have cooled down, if that is soon enough for the request and few wait."""
        snapshot = self._knowledge.snapshot(time.monotonic(), time.time())
        wait_ms = cooldown_ms(request, snapshot, self._settings)
        left_s = min(until_s - time.monotonic(), call.remaining_s())
        if wait_ms is None or wait_ms / 1000 > left_s or self._waiting >= self._settings.parked:
            return False
        self._waiting += 1
        try:
            with _parked.track_inprogress():
                await asyncio.sleep(max(wait_ms / 1000, _TICK_S))
        finally:
            self._waiting -= 1
        return True

    async def _more_news(self) -> bool:
        """Whether a status came in while the router may still be unaware of workers that are there."""
        self._news.clear()
        try:
            async with asyncio.timeout(max(0.0, self._settled_s - time.monotonic())):
                return await self._news.wait()
        except TimeoutError:
            return False


def routed(decided: Decision, request: Route) -> Routed:
    """The reply: the choice, and the sizes that the next stages keep to.

    The answer gets what was asked for (or the model's usual length) as far as that leaves the prompt its size, or
    three quarters of the window, whichever is less.
    """
    chosen = decided.option
    model = chosen.model
    window = window_of(model, chosen.load)
    prompt = min(max(request.prompt_tokens, model.token_budget), window * 3 // 4)
    answer = max(1, min(request.max_tokens or model.max_tokens, window - prompt))
    return Routed(
        model=model.name,
        slug=model.slug,
        worker=chosen.load.name,
        reason=decided.reason,
        confidence=decided.confidence,
        difficulty=decided.difficulty.score,
        expected_ttft_ms=round(chosen.expected_ms, 1),
        p95_ttft_ms=round(chosen.p95_ms, 1) if chosen.measured else 0.0,
        context_window=window,
        token_budget=min(model.token_budget, window - answer),
        max_tokens=answer,
        shares={str(part): share for part, share in model.shares.items()},
        tokenizer=model.tokenizer,
        continues=chosen.load.continues,
        over_budget=decided.over_budget,
        cascade=decided.cascade,
        defaults=model.defaults,
        features=decided.difficulty.features,
    )


def build(settings: Settings, bus: Bus, models: Sequence[Model]) -> Router:
    """The router with its whole wiring; a ModelTable may change its rows while it runs."""
    return Router(settings, bus, models if isinstance(models, ModelTable) else ModelTable(models))
