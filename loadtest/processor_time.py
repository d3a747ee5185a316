"""What work costs each process in processor time, from the kernel's own counts; children count with their parent."""

from collections.abc import Mapping

import psutil

from loadtest.processor import seconds_of


def processor_s(pids: Mapping[str, int]) -> dict[str, float]:
    """The processor time (s, user and kernel) that each process and its children have had, by name."""
    return {name: sum(seconds_of(one) for one in _family(pid)) for name, pid in pids.items()}


def _family(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def resident_mb(pid: int) -> tuple[float, float]:
    """The memory of a process and its children (MB): resident, which counts shared pages each time, and their
    proportional share of it."""
    resident = proportional = 0.0
    for one in _family(pid):
        try:
            found = one.memory_full_info()
        except psutil.Error:
            continue
        resident, proportional = resident + found.rss / 1e6, proportional + found.pss / 1e6
    return resident, proportional


def cost_us(spent_s: Mapping[str, float], idle_per_s: Mapping[str, float], took_s: float, count: int) -> dict[str, int]:
    """Microseconds that one of `count` requests cost each process: what it had in `took_s`, less what it has when
    nothing is asked of it."""
    return {name: round((spent - idle_per_s.get(name, 0.0) * took_s) / count * 1e6) for name, spent in spent_s.items()}


def per_core(costs_us: Mapping[str, int]) -> float:
    """Requests a second that one core could serve at these costs, if it did nothing else."""
    total = sum(costs_us.values())
    return 1e6 / total if total > 0 else 0.0
