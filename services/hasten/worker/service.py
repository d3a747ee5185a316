"""Runs one model behind one subject: a line, an engine, and a word about both several times a second."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import nats.errors

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.chat import Done
from hasten.messages.failure import Failed, Failure
from hasten.messages.generate import GENERATE, STATUS, Generate, Status
from hasten.models import Model
from hasten.service import Call, Service
from hasten.telemetry import Stopwatch
from hasten.worker.domain import check, check_in_time, estimate_tokens, find_model, made_safe, with_defaults
from hasten.worker.engines import Engine, EngineError, engine_class
from hasten.worker.generation import Generation
from hasten.worker.line import Line, Place
from hasten.worker.meter import Meter
from hasten.worker.pace import Pace
from hasten.worker.settings import Settings
from hasten.worker.span import GenerationSpan
from hasten.worker.speed import Speed
from hasten.worker.supervisor import Supervisor

State = Literal["starting", "ready", "draining", "down"]
LAG_SAMPLES = 5
"""How often the loop's lag is sampled between two statuses."""


class Worker:
    """One model on one engine. `make_engine` is called at the start, and again whenever the engine has broken."""

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        model: Model,
        make_engine: Callable[[], Engine],
        table: Sequence[Model] = (),
    ) -> None:
        self._table, self._last_defaults = table, model.defaults
        self._settings, self._bus, self._model = settings, bus, model
        self.name = settings.worker or f"w-{secrets.token_hex(4)}"
        self._supervisor = Supervisor(settings, model.name, make_engine, self._announce)
        slots = self._engine.slots
        self._line = Line(slots, model.engine.queue, settings.tenant_share)
        self._pace = Pace()
        self._speed, self._meter = Speed(), Meter(model.name)
        self._hears = self._draining = False
        self._seq, self._started_ms, self._lag_ms = 0, int(now_ms()), 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._service = Service(bus, "worker", f"Generates with {model.name}.", report=self._report)
        self._service.answer(
            GENERATE,
            self._generate,
            limit=slots + model.engine.queue,
            admit=self._admit,
            slug=model.slug,
            worker=self.name,
        )

    @property
    def model(self) -> str:
        """The public name of the model that it runs."""
        return self._model.name

    async def start(self) -> None:
        """Starts the engine, then hears requests; raises what the engine raises, with the state `down` announced.

        An EngineError means that it can only run later: the worker hears, is `down`, and tries again.
        """
        self._begin(self._announce_for_ever())
        try:
            await self._supervisor.start()
        except BaseException:
            await self._announce()
            raise
        await self._service.start()
        self._hears = True
        await self._announce()

    @property
    def _engine(self) -> Engine:
        return self._supervisor.engine

    def _begin(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _admit(self, request: Generate, call: Call) -> None:
        self._check_well()
        check(request, self._engine.capabilities, self._engine.continues)
        line, pace = self._line, self._pace
        if line.crowded_by(call.tenant):
            detail = "this tenant fills its share of the line"
            raise Failed("overloaded", detail, retry_after_ms=max(1, round(line.share_ms(call.tenant))))
        if pace.claims(_now_ms()):
            tokens = estimate_tokens(request.messages, request.continues)
            wait = line.wait_ms(call.tenant, request.priority)
            needed = pace.slot_ms(tokens, request.max_tokens) if wait else pace.first_ms(tokens)
            check_in_time(wait, needed, call.remaining_s() * 1000)

    def _check_well(self) -> None:
        if self._supervisor.well is False:
            raise Failed("unavailable", "the engine broke and is not running", retry_after_ms=1000)

    async def _generate(self, request: Generate, call: Call) -> None:
        clock, pace = Stopwatch(), self._pace
        tokens = estimate_tokens(request.messages, request.continues)
        cost_ms = pace.slot_ms(tokens, request.max_tokens)
        async with self._line.place(call.tenant, tokens, cost_ms, request.priority) as place:
            clock.record("queue", 0.0)
            self._meter.waited(clock.elapsed_ms())
            if call.remaining_s() <= 0:
                raise Failed("deadline", "the deadline passed in the line")
            if place.waited and pace.claims(_now_ms()):
                check_in_time(0.0, pace.slot_ms(tokens, request.max_tokens), call.remaining_s() * 1000)
            self._check_well()
            began = clock.elapsed_ms()
            request = with_defaults(made_safe(request), self._defaults())
            with GenerationSpan(self._bus.tracing, self._model, request) as span:
                done = await self._answer(request, call, clock, place)
                span.done(done)
            held = clock.elapsed_ms() - began
            first, answer = clock.stages.get("first_token", held), done.usage.completion_tokens
            pace.ended(_now_ms(), tokens, first, answer, held)

    async def _answer(self, request: Generate, call: Call, clock: Stopwatch, place: Place) -> Done:
        engine = self._engine
        generation = Generation(engine, self._model.name, call, clock, place, self._speed, self._meter)
        try:
            done = await generation.run(request)
        except EngineError as error:
            if _pause_ms(engine) > 0:
                self._begin(self._announce())
            raise Failed.of(self._failure(error, generation.chunks)) from None
        except Failed:
            raise
        except Exception as error:
            if self._supervisor.broken(engine, error):
                self._meter.crashed()
            raise Failed.of(self._failure(_crash(error), generation.chunks)) from None
        await call.send(done)
        return done

    def _failure(self, error: EngineError, chunks: int) -> Failure:
        broken = error.code == "cancelled" and self._supervisor.well is False
        return Failure(
            code="upstream" if broken else error.code,
            detail="the engine broke" if broken else error.detail,
            param=error.param,
            retry_after_ms=error.retry_after_ms,
            tokens_sent=chunks,
            model=self._model.name,
        )

    @property
    def _state(self) -> State:
        if self._draining:
            return "draining"
        if self._supervisor.well is False:
            return "down"
        return "ready" if self._hears else "starting"

    async def _announce(self) -> None:
        self._seq += 1
        status = self.status()
        self._meter.says(status)
        with contextlib.suppress(nats.errors.Error):
            await self._bus.publish(STATUS, status, slug=self._model.slug, worker=self.name)

    async def _announce_for_ever(self) -> None:
        loop, step = asyncio.get_running_loop(), self._settings.status_interval_s / LAG_SAMPLES
        while True:
            await self._announce()
            worst = 0.0
            for _ in range(LAG_SAMPLES):
                due = loop.time() + step
                await asyncio.sleep(step)
                worst = max(worst, loop.time() - due)
            self._lag_ms = round(worst * 1000, 1)

    def status(self) -> Status:
        """What the worker says of itself."""
        line, engine = self._line, self._engine
        return Status(
            seq=self._seq,
            started_ms=self._started_ms,
            state=self._state,
            engine=self._model.engine.kind,
            model=self._model.name,
            slots=line.slots,
            active=line.active,
            queued=line.queued,
            queue_limit=self._model.engine.queue,
            queued_tokens=line.queued_tokens,
            oldest_ms=round(line.oldest_ms(), 1),
            late_ms=round(line.late_ms(self._speed.first_ms), 1),
            continues=engine.continues,
            capabilities=engine.capabilities,
            context_window=self._model.context_window,
            loop_lag_ms=self._lag_ms,
            cache_tokens=self._model.cache_tokens,
            token_ms=round(self._speed.token_ms, 4),
            answer_ms=round(self._speed.answer_ms, 1),
            pause_ms=round(_pause_ms(engine), 1),
        )

    def _defaults(self) -> dict[str, Any]:
        """The sampling options of its row as the table has it now, or had it last."""
        for row in self._table:
            if row.slug == self._model.slug:
                self._last_defaults = row.defaults
        return self._last_defaults

    def _report(self) -> dict[str, Any]:
        return {
            "worker": self.name,
            "model": self._model.name,
            "engine": self._model.engine.kind,
            "state": self._state,
            "queued": self._line.queued,
            "generating": self._line.active,
        }

    async def drain(self) -> None:
        """Says so first, then stops hearing and finishes all that was accepted."""
        self._draining = True
        self._supervisor.retire()
        await self._announce()
        await self._service.drain()
        await self._engine.drain()

    async def close(self) -> None:
        """Stops what is left and the engine; the last word is `down`. Survives a half-finished start."""
        await self._service.close()
        try:
            await self._supervisor.close()
        finally:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._draining = False
            await self._announce()


def _pause_ms(engine: Engine) -> float:
    return float(getattr(engine, "pause_ms", 0.0))


def _now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


def _crash(error: Exception) -> EngineError:
    return EngineError("upstream", f"the engine broke ({type(error).__name__})", retry_after_ms=1000)


def build(settings: Settings, bus: Bus, models: Sequence[Model]) -> Worker:
    """A worker for the row that the settings name, with the engine of its kind; raises SettingsError.

    Where the rows of the table change later, it takes their `defaults`; the rest is a matter of its start."""
    model = find_model(settings.model, models)
    kind, data = engine_class(model.engine.kind), Path(settings.data)
    return Worker(settings, bus, model, lambda: kind.from_config(model, data), models)
