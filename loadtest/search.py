"""The highest rate at which the tail keeps a bound: doubled until it breaks, then narrowed down; pure.

The curve on the way there is kept. A point whose generator was too late, or which failed, does not keep the bound.
"""

from collections.abc import Awaitable, Callable

import msgspec

from loadtest.summary import Summary


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One rate: `multiple` of the scenario's. `within` is the share of all requests whose first token kept the bound,
    and `held` whether that was enough."""

    multiple: float
    within: float
    held: bool
    summary: Summary


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The points by rate. `best` is the highest that held below every one that did not; None when not even the lowest
    did. `open_end` says that none was tried that broke."""

    points: list[Point]
    best: Point | None
    open_end: bool


Try = Callable[[float], Awaitable[Point]]


async def search(attempt: Try, *, most: float, steps: int, first: float = 1.0) -> Found:
    """Tries multiples `first`, twice that, … up to `most`, then `steps` times the (geometric) middle of the last good
    one and the first bad one; when `first` breaks, halves down to a 16th of it before."""
    points: list[Point] = []

    async def holds(multiple: float) -> bool:
        points.append(await attempt(multiple))
        return points[-1].held

    good = bad = 0.0
    if await holds(first):
        good = first
        while good < most and not bad:
            higher = min(good * 2, most)
            good, bad = (higher, 0.0) if await holds(higher) else (good, higher)
    else:
        bad = first
        while not good and bad > first / 16:
            good, bad = (bad / 2, bad) if await holds(bad / 2) else (0.0, bad / 2)
    for _ in range(steps if good and bad else 0):
        middle = round((good * bad) ** 0.5, 3)
        good, bad = (middle, bad) if await holds(middle) else (good, middle)
    points.sort(key=lambda point: point.multiple)
    best = next((point for point in points if point.multiple == good), None) if good else None
    return Found(points=points, best=best, open_end=not bad)
