"""Everything that one run has found, as it goes into the JSON file."""

import platform
from typing import Any

import msgspec
import psutil

from loadtest.processor import Busy
from loadtest.sample import Sample
from loadtest.scenario import Scenario
from loadtest.search import Found
from loadtest.summary import Summary


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it ran: usable cores, the load average of the last minute when it ended, and what runs Python there."""

    cores: int
    load: float
    system: str
    python: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A run: how it was started, what it was of, and its figures. `samples` are not written to the file."""

    name: str
    about: str
    command: str
    seed: int
    machine: Machine
    scenario: Scenario
    summary: Summary
    busy: dict[str, Busy] = {}
    search: Found | None = None
    samples: list[Sample] = []

    def plain(self) -> bytes:
        """The JSON text, without the samples and the questions of the scenario."""
        fields: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(self, samples=[]))
        del fields["samples"]
        return msgspec.json.format(msgspec.json.encode(fields), indent=1)


def machine() -> Machine:
    """This one, now."""
    cores = len(psutil.Process().cpu_affinity() or [])
    load = round(psutil.getloadavg()[0], 1)
    return Machine(cores=cores, load=load, system=platform.platform(terse=True), python=platform.python_version())
