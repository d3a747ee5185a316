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
    """Makes the requests of a scenario, one load after the other: the same for the same seed, multiples and order.

    Popular questions stay so, what is new in one load is new in every later one, and recorded prompts are as long in
    each but of other words: neither cache nor engine knows them from the load before. Reads a trace once.
    """

    def __init__(self, scenario: Scenario, data: Path | None, seed: int) -> None:
        self._scenario, self._data, self._seed, self._made = scenario, data, seed, 0
        self._rows = self._read() if scenario.recorded else []
        self._questions = Questions(scenario.prompts, data, seed)

    def at(self, multiple: float = 1.0, seconds: float | None = None) -> Load:
        """The requests of `seconds` (the scenario's own where None) at a multiple of its rate or speed."""
        given, lasts = self._scenario.arrivals, seconds or self._scenario.arrivals.seconds
        self._made += 1
        if self._scenario.recorded:
            speed = given.speed * multiple
            return self._replayed(
                stretch(self._rows, given.start_s, lasts * speed), speed, f"{self._seed} {self._made}"
            )
        if given.kind == "steady":
            return _asked(steady(given.rate * multiple, lasts), self._questions)
        return _asked(poisson(given.rate * multiple, lasts, self._seed * 1000 + self._made), self._questions)

    def warm(self) -> Load:
        """Requests to begin with, all due at once, that no other load repeats."""
        if self._scenario.recorded:
            load = self._replayed(self._rows[: self._scenario.warm], 1.0, f"{self._seed} warm")
        else:
            prompts = msgspec.structs.replace(self._scenario.prompts, repeated=0.0, source="made", texts=[])
            load = _asked([0.0] * self._scenario.warm, Questions(prompts, None, -1 - self._seed))
        return msgspec.structs.replace(load, arrivals=[0.0] * len(load.bodies))

    def _replayed(self, rows: list[Row], speed: float, words: str) -> Load:
        bodies = [self._scenario.prompts.body | body(row, index, words) for index, row in enumerate(rows)]
        return Load(recorded([row.at_s for row in rows], speed=speed), [TRACE] * len(rows), bodies)

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


def _asked(arrivals: list[float], questions: Questions) -> Load:
    asked = [questions.next() for _ in arrivals]
    return Load(arrivals, [kind for kind, _ in asked], [made for _, made in asked])
