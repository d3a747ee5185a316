"""Builds services from their entry points, starts them in order on one bus, and drains them in reverse.

`hasten up` runs all of them this way in one process, `hasten run SERVICE` runs one: same code, same subjects.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Protocol

from hasten.bus import Bus
from hasten.changes.settings import changes
from hasten.models import Model, ModelTable, model_table
from hasten.settings import SettingsError, settings
from hasten.telemetry import logger

log = logger("runtime")
GROUP = "hasten.services"
STAGES = (
    ("embedder", "router", "compressor", "worker"),
    ("cache", "retriever"),
    ("orchestrator",),
    ("gateway",),
)
"""Who starts together: models load side by side, whoever needs vectors at its start comes second, callers last."""
SPARED = ("embedder", "retriever", "cache")
"""What `hasten up` can do without: requests are answered, without what these do."""
DRAIN_S = 30.0
CLOSE_S = 5.0
Say = Callable[[str], None]


class Unit(Protocol):
    """What `build` of a service returns."""

    async def start(self) -> None:
        """Returns when the service hears its subjects."""

    async def drain(self) -> None:
        """Stops hearing and finishes what was accepted."""

    async def close(self) -> None:
        """Cancels what is left and frees everything."""


def installed() -> dict[str, str]:
    """The services that are installed, ours and those of others: name → package."""
    return {found.name: found.value for found in entry_points(group=GROUP)}


def check_sections(config: Mapping[str, Any]) -> None:
    """Raises SettingsError for a section of the config that nobody reads."""
    known = {*installed(), "models", "changes"}
    if unknown := ", ".join(sorted(set(config) - known)):
        raise SettingsError(f"there is no section {unknown}; there are {', '.join(sorted(known))}")


def check(config: Mapping[str, Any], services: Iterable[str]) -> None:
    """Raises SettingsError for what `build` of these services would refuse, before anything slow has begun."""
    check_sections(config)
    found = installed()
    for name in services:
        if name not in found:
            raise SettingsError(f"there is no service {name}; there are {', '.join(sorted(found))}")
        given = settings(import_module(f"{found[name]}.settings").Settings, name, config)
        if refuse := getattr(import_module(f"{found[name]}.service"), "check_settings", None):
            refuse(given)
    model_table(config)
    changes(config)


def reads_table(name: str) -> bool:
    """Whether a service goes by the model table."""
    found = installed()
    return name in found and "models" in inspect.signature(import_module(f"{found[name]}.service").build).parameters


def build(name: str, bus: Bus, config: Mapping[str, Any], *, table: ModelTable | None = None, **overrides: Any) -> Unit:
    """Builds one service with its settings; raises SettingsError for an unknown name, key or value.

    `overrides` that the service has no setting for are left out. A service whose `build` takes `models` gets the table
    (that of the config, where none is given), one that takes `changes` the sources and rules of change events.
    """
    found = installed()
    if name not in found:
        raise SettingsError(f"there is no service {name}; there are {', '.join(sorted(found))}")
    kind = import_module(f"{found[name]}.settings").Settings
    make = import_module(f"{found[name]}.service").build
    given = settings(kind, name, config, **overrides)
    wanted = inspect.signature(make).parameters
    also: dict[str, Any] = {"models": table or ModelTable(model_table(config))} if "models" in wanted else {}
    if "changes" in wanted:
        also["changes"] = changes(config)
    made: Unit = make(given, bus, **also)
    return made


class Runtime:
    """Services that share one bus and one event loop.

    `start` starts the stages one after the other and the services of a stage together; when one fails the rest is
    closed and its error raised. `drain` goes the other way, so that whoever calls stops before whoever is called.
    """

    def __init__(self, stages: Iterable[Mapping[str, Unit]]) -> None:
        self._stages = [dict(stage) for stage in stages if stage]
        self._begun: list[dict[str, Unit]] = []

    @property
    def units(self) -> dict[str, Unit]:
        """Every service by name, in the order of starting."""
        return {name: unit for stage in self._stages for name, unit in stage.items()}

    async def start(self, say: Say) -> None:
        """Returns when every service hears its subjects; `say` gets a line for each."""
        for stage in self._stages:
            self._begun.append(stage)
            await _all(_start(name, unit, say) for name, unit in stage.items())

    async def drain(self, timeout_s: float = DRAIN_S) -> bool:
        """Whether everything that was accepted has been answered within `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                for stage in reversed(self._begun):
                    await asyncio.gather(*(unit.drain() for unit in stage.values()))
        except TimeoutError:
            log.error("the drain took longer than %g s and was cut short", timeout_s)
            return False
        return True

    async def close(self) -> None:
        """Closes every service that was begun, whatever state it is in."""
        for stage in reversed(self._begun):
            await asyncio.gather(*(_close(name, unit) for name, unit in stage.items()))
        self._begun.clear()


async def _start(name: str, unit: Unit, say: Say) -> None:
    began = time.perf_counter()
    await unit.start()
    say(f"{name} is ready ({time.perf_counter() - began:.1f} s)")


async def _close(name: str, unit: Unit) -> None:
    try:
        async with asyncio.timeout(CLOSE_S):
            await unit.close()
    except Exception as error:
        log.error("%s did not close: %s", name, type(error).__name__)


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs all at once; the first error cancels the others and is raised itself, not in a group."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def whole_system(
    bus: Bus,
    config: Mapping[str, Any],
    *,
    table: ModelTable | None = None,
    without: Collection[str] = (),
    **overrides: Any,
) -> Runtime:
    """Every installed service on one bus but those it is to be `without`, with one worker for each model that the table
    has now."""
    table = table or ModelTable(model_table(config))
    extra = sorted(set(installed()) - {name for stage in STAGES for name in stage})
    stages: list[dict[str, Unit]] = []
    for names in (*STAGES[:-1], tuple(extra), STAGES[-1]):
        stage: dict[str, Unit] = {}
        for name in (name for name in names if name not in without):
            if name == "worker":
                stage |= {f"worker {model.name}": _worker(bus, config, table, model, overrides) for model in table}
            else:
                stage[name] = build(name, bus, config, table=table, **overrides)
        stages.append(stage)
    return Runtime(stages)


def _worker(bus: Bus, config: Mapping[str, Any], table: ModelTable, model: Model, overrides: Mapping[str, Any]) -> Unit:
    return build("worker", bus, config, table=table, **{**overrides, "model": model.name})
