"""Answers route and models from what it has heard of workers and finished requests; keeps nothing on disk."""

import asyncio
import time
from typing import Any

import msgspec

from hasten.bus import Bus
from hasten.messages.chat import FINISHED, Finished
from hasten.messages.failure import Failure
from hasten.messages.generate import STATUS, Status
from hasten.messages.route import MODELS, ROUTE, ModelList, Models, Route, Routed
from hasten.models import Model
from hasten.router.decision import Decision, decide
from hasten.router.knowledge import Knowledge
from hasten.router.options import window_of
from hasten.router.settings import Settings
from hasten.service import Call, Service
from hasten.telemetry import counter, histogram

_decisions = counter("router_decisions_total", "Decisions by model and kind, failures by their code", "model", "kind")
_seconds = histogram("router_decide_seconds", "Time of one decision")
_lost = counter("router_events_lost_total", "Events that never came, by gaps in their numbers", "topic")


class Router:
    """One replica: hears every status and finished event, and decides by these facts alone."""

    def __init__(self, settings: Settings, bus: Bus, models: list[Model]) -> None:
        self._settings = settings
        self._knowledge = Knowledge(models, settings)
        self._news = asyncio.Event()
        self._settled_s = 0.0
        self._service = Service(bus, "router", "Chooses the model and the worker.", report=self.report)
        self._service.answer(ROUTE, self._on_route, limit=settings.limit, waiting=settings.waiting)
        self._service.answer(MODELS, self._on_models, limit=16, waiting=64)
        self._service.listen(STATUS, self._on_status)
        self._service.listen(FINISHED, self._on_finished)

    async def start(self) -> None:
        """Subscribes. Until `settle_ms` later a request that finds no worker waits for one to say its first word."""
        self._settled_s = time.monotonic() + self._settings.settle_ms / 1000
        await self._service.start()

    async def drain(self) -> None:
        """Stops hearing and answers what was accepted."""
        await self._service.drain()

    async def close(self) -> None:
        """Ends what is left."""
        await self._service.close()

    def report(self) -> dict[str, Any]:
        """The service's own figures: the models with their workers and first-token times."""
        return {"models": [msgspec.to_builtins(info) for info in self._knowledge.models(time.monotonic())]}

    def _on_status(self, status: Status, tokens: dict[str, str]) -> None:
        missed = self._knowledge.status(tokens["slug"], tokens["worker"], status, time.monotonic())
        _lost.labels("status").inc(missed)
        self._news.set()

    def _on_finished(self, event: Finished, _: dict[str, str]) -> None:
        _lost.labels("finished").inc(self._knowledge.finished(event, time.monotonic()))

    async def _on_models(self, _: Models, __: Call) -> ModelList:
        return ModelList(models=self._knowledge.models(time.monotonic()))

    async def _on_route(self, request: Route, call: Call) -> Routed | Failure:
        decided = self._decide(request, call)
        while isinstance(decided, Failure) and decided.code == "unavailable" and await self._more_news():
            decided = self._decide(request, call)
        if isinstance(decided, Failure):
            _decisions.labels("", decided.code).inc()
            return decided
        model, worker = decided.option.model, decided.option.load.name
        self._knowledge.sent(model.slug, worker, request.prompt_tokens, time.monotonic())
        _decisions.labels(model.name, decided.kind).inc()
        return routed(decided, request)

    def _decide(self, request: Route, call: Call) -> Decision | Failure:
        with _seconds.time():
            return decide(request, call.request_id, self._knowledge.snapshot(time.monotonic()), self._settings)

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
        tokenizer=model.tokenizer,
        continues=chosen.load.continues,
        defaults=model.defaults,
        features=decided.difficulty.features,
    )


def build(settings: Settings, bus: Bus, models: list[Model]) -> Router:
    """The router with its whole wiring."""
    return Router(settings, bus, models)
