"""Runs the loads of a scenario against a target, one after the other."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self

from hasten.client import Hasten
from hasten.models import model_table
from hasten.settings import SettingsError
from loadtest.bar import bar
from loadtest.bus_caller import BusCaller
from loadtest.heard import Heard
from loadtest.http_caller import HttpCaller
from loadtest.load import Load, Loads
from loadtest.open_loop import open_loop
from loadtest.own_system import TENANT, Target
from loadtest.price import prices
from loadtest.processor import Busy, Meter
from loadtest.sample import Sample
from loadtest.scenario import Bound, Scenario
from loadtest.search import Point
from loadtest.summary import summary, within

TRIES = 3
Caller = Callable[[Mapping[str, Any], float], Awaitable[Sample]]


class Runner:
    """A scenario, whom it asks, and how. `seed` decides moments and questions."""

    def __init__(
        self, scenario: Scenario, ask: Caller, heard: Heard | None, meter: Meter, data: Path | None, seed: int
    ) -> None:
        self._scenario, self._ask, self._heard, self._meter = scenario, ask, heard, meter
        self._loads = Loads(scenario, data, seed)

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, scenario: Scenario, target: Target, data: Path | None, seed: int) -> AsyncIterator[Self]:
        """Connects to the target and asks the scenario's warm requests."""
        listens = scenario.via == "http" and target.nats
        hearing = Heard.listening(target.nats, TENANT) if listens else contextlib.nullcontext()
        async with _caller(scenario, target) as ask, hearing as heard:
            made = cls(scenario, ask, heard, Meter(target.pids), data, seed)
            _check(await made._samples(made._loads.warm(), "warming up"))
            yield made

    async def run(self, multiple: float = 1.0) -> tuple[list[Sample], dict[str, Busy]]:
        """The scenario, at a multiple of its rate: its samples, and the processor time of each service meanwhile."""
        load = self._loads.at(multiple)
        self._meter.restart()
        return await self._samples(load, "asking"), self._meter.read()

    async def at(self, multiple: float, bound: Bound) -> Point:
        """The scenario at a multiple of its rate, for as long as the bound says. A point at which the generator was
        late says nothing of the system: it is tried again, `TRIES` times in all."""
        for _ in range(TRIES):
            samples = await self._samples(self._loads.at(multiple, bound.seconds), f"asking ×{multiple:g}")
            figures, share = summary(samples, late_ms=self._scenario.late_ms), within(samples, bound.ttft_ms)
            if not figures.invalid:
                break
        held = share >= bound.share and not figures.invalid
        return Point(multiple=multiple, within=round(share, 5), held=held, summary=figures)

    async def _samples(self, load: Load, what: str) -> list[Sample]:
        async def one(index: int, due: float) -> Sample:
            sample = await self._ask(load.bodies[index], due)
            sample.kind = load.kinds[index]
            return sample

        with bar(what, len(load.arrivals)) as told:
            samples = await open_loop(load.arrivals, one, told)
        if self._heard is not None:
            await self._heard.tell(samples)
        return samples


def _check(warm: list[Sample]) -> None:
    """Raises SettingsError when not one request was answered: whoever is asked cannot be, or not with this."""
    if not warm or any(sample.ok for sample in warm):
        return
    first = warm[0]
    why = ": ".join(part for part in (first.outcome, first.detail) if part)
    key = " (HASTEN_API_KEY is the key)" if first.outcome == "unauthorized" else ""
    raise SettingsError(f"none of the {len(warm)} requests to warm up with was answered: {why}{key}")


@contextlib.asynccontextmanager
async def _caller(scenario: Scenario, target: Target) -> AsyncIterator[Caller]:
    if scenario.via == "http":
        table = prices(model_table(scenario.own.config))
        timeout_s = scenario.deadline_s
        async with HttpCaller.connect(target.http, target.key, table, timeout_s=timeout_s) as http:
            yield http.ask
        return
    async with Hasten.connect(target.nats, tenant=TENANT) as hasten:
        table = prices(await hasten.models())
        yield BusCaller(hasten, table, timeout_s=scenario.deadline_s).ask
