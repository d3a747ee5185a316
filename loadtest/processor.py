"""How much processor time each process takes while a load runs: the first to need a whole core is the bottleneck."""

import time
from collections.abc import Mapping, Sequence

import msgspec
import psutil

GENERATOR = "generator"
"""The name under which the process that asks is counted itself."""


class Busy(msgspec.Struct, frozen=True, kw_only=True):
    """What one service took: cores on average, and its busiest process alone (an event loop has one core)."""

    processes: int
    cores: float
    busiest: float


class Meter:
    """Reads the times of processes by service; `restart` begins anew, `read` says what was taken since."""

    def __init__(self, pids: Mapping[str, Sequence[int]]) -> None:
        own = {GENERATOR: [psutil.Process().pid]}
        self._processes = {name: [psutil.Process(pid) for pid in some] for name, some in {**pids, **own}.items()}
        self.restart()

    def restart(self) -> None:
        """Counts from now on."""
        self._since, self._before = time.monotonic(), self._times()

    def read(self) -> dict[str, Busy]:
        """Since the last restart, the busiest service first."""
        took, now = max(1e-9, time.monotonic() - self._since), self._times()
        used = {name: [max(0.0, b - a) for a, b in zip(self._before[name], now[name], strict=True)] for name in now}
        found = {
            name: Busy(processes=len(some), cores=round(sum(some) / took, 3), busiest=round(max(some) / took, 3))
            for name, some in used.items()
            if some
        }
        return dict(sorted(found.items(), key=lambda item: -item[1].busiest))

    def _times(self) -> dict[str, list[float]]:
        return {name: [seconds_of(one) for one in some] for name, some in self._processes.items()}


def seconds_of(process: psutil.Process) -> float:
    """The processor time of all its threads; nothing of a process that has ended."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
