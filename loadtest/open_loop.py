"""Asks at given moments, however long the answers take: a stalled system does not slow down who asks it.

In a closed loop a stall is seen by as many requests as there are callers, and nobody asks while it lasts (coordinated
omission, G. Tene). Here each request is due at its own moment, and its times count from there.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from loadtest.sample import Sample

Ask = Callable[[int, float], Awaitable[Sample]]
"""Asks request `index`, due at a moment of `time.perf_counter`, and counts all its times from that moment."""


def _unseen(sample: Sample) -> None:
    """What a run without a progress bar does with a sample."""


async def open_loop(arrivals: Sequence[float], ask: Ask, progress: Callable[[Sample], None] = _unseen) -> list[Sample]:
    """Starts request i at `arrivals[i]` seconds (ascending) and returns the samples in that order when all have ended.

    `progress` is told each sample as it ends. An error that `ask` raises is an outcome of that request, `client_` and
    the error's name: a request is never left out. `index`, `at_s` and `late_ms` of the samples are set here.
    """
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        asked = list[asyncio.Task[Sample]]()
        for index, at in enumerate(arrivals):
            await _until(began + at)
            asked.append(group.create_task(_one(ask, index, at, began + at, progress)))
    return [task.result() for task in asked]


async def _until(moment: float) -> None:
    """Waits for a moment; one that has passed lets the requests before it begin."""
    await asyncio.sleep(max(0.0, moment - time.perf_counter()))
    while (left := moment - time.perf_counter()) > 0:  # noqa: ASYNC110 (uvloop's timers are early by up to 0.5 ms)
        await asyncio.sleep(left)


async def _one(ask: Ask, index: int, at: float, due: float, progress: Callable[[Sample], None]) -> Sample:
    late_ms = (time.perf_counter() - due) * 1000
    try:
        sample = await ask(index, due)
    except Exception as error:
        sample = Sample(outcome=f"client_{type(error).__name__}", total_ms=(time.perf_counter() - due) * 1000)
    sample.index, sample.at_s, sample.late_ms = index, at, late_ms
    progress(sample)
    return sample
