"""The requests of a scenario: when each is due and what it asks, at any multiple of the scenario's rate."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from loadtest.arrivals import poisson, recorded, steady
from loadtest.prompt import Questions
from loadtest.scenario import Scenario, ScenarioError
from loadtest.trace import Row, azure, mooncake, stretch
from loadtest.trace_prompt import body

TRACE = "trace"
_READERS: dict[str, Callable[[Path], list[Row]]] = {"azure": azure, "mooncake": mooncake}


class Load(msgspec.Struct, frozen=True):
    """Moments in seconds, and for each the kind of its request and the chat body."""

    arrivals: list[float]
    kinds: list[str]
    bodies: list[dict[str, Any]]


class Loads:
    """Makes the requests of a scenario; the same for the same seed and multiple. Reads a trace once."""

    def __init__(self, scenario: Scenario, data: Path | None, seed: int) -> None:
        self._scenario, self._data, self._seed = scenario, data, seed
        self._rows = self._read() if scenario.recorded else []

    def at(self, multiple: float = 1.0, seconds: float | None = None) -> Load:
        """The requests of `seconds` (the scenario's own where None) at a multiple of its rate or speed."""
        given, lasts = self._scenario.arrivals, seconds or self._scenario.arrivals.seconds
        if self._scenario.recorded:
            speed = given.speed * multiple
            rows = stretch(self._rows, given.start_s, lasts * speed)
            bodies = [self._scenario.prompts.body | body(row, index) for index, row in enumerate(rows)]
            return Load(recorded([row.at_s for row in rows], speed=speed), [TRACE] * len(rows), bodies)
        make = {"poisson": lambda rate: poisson(rate, lasts, self._seed), "steady": lambda rate: steady(rate, lasts)}
        arrivals = make[given.kind](given.rate * multiple)
        return self._asked(arrivals, Questions(self._scenario.prompts, self._data, self._seed))

    def warm(self) -> Load:
        """Requests to begin with, all due at once, that no other load repeats."""
        if self._scenario.recorded:
            rows = self._rows[: self._scenario.warm]
            bodies = [self._scenario.prompts.body | body(row, -1 - index) for index, row in enumerate(rows)]
            return Load([0.0] * len(rows), [TRACE] * len(rows), bodies)
        prompts = msgspec.structs.replace(self._scenario.prompts, repeated=0.0, source="made", texts=[])
        return self._asked([0.0] * self._scenario.warm, Questions(prompts, None, -1 - self._seed))

    def _asked(self, arrivals: list[float], questions: Questions) -> Load:
        asked = [questions.next() for _ in arrivals]
        return Load(arrivals, [kind for kind, _ in asked], [made for _, made in asked])

    def _read(self) -> list[Row]:
        given = self._scenario.arrivals
        if self._data is None:
            raise ScenarioError(f"arrivals.file: {given.file} is looked for in the folder --data, which was not given")
        path = self._data / given.file
        try:
            return _READERS[given.kind](path)
        except OSError as error:
            raise ScenarioError(f"arrivals.file: {path} cannot be read: {error.strerror}") from None
        except (KeyError, ValueError, msgspec.MsgspecError):
            raise ScenarioError(f"arrivals.file: {path} is not a trace of the kind {given.kind}") from None
