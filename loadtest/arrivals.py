"""When requests come: moments in seconds from the start of a run, ascending, the same for the same arguments."""

import random
from collections.abc import Sequence
from itertools import pairwise


def poisson(rate: float, seconds: float, seed: int) -> list[float]:
    """Moments of independent callers, `rate` of them a second on average, for so many seconds."""
    draws, at, moments = random.Random(f"arrivals {seed}"), 0.0, list[float]()
    while rate > 0 and (at := at + draws.expovariate(rate)) < seconds:
        moments.append(at)
    return moments


def steady(rate: float, seconds: float) -> list[float]:
    """Moments at equal distances, `rate` of them a second."""
    return [at / rate for at in range(int(rate * seconds))] if rate > 0 else []


def recorded(moments: Sequence[float], *, speed: float = 1.0) -> list[float]:
    """Recorded moments (seconds, ascending, from any origin) from 0 on, `speed` times as fast as they were."""
    if any(later < earlier for earlier, later in pairwise(moments)):
        raise ValueError("recorded moments must ascend")
    return [(at - moments[0]) / speed for at in moments]
