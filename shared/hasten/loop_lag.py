"""Measures how long the event loop was kept from running anything, which no service may do for more than 20 ms."""

import asyncio
import time
from collections import deque

from hasten.telemetry import histogram

INTERVAL_S = 0.02
REMEMBERED = 3000
_lag = histogram("loop_lag_seconds", "How late the event loop woke up, sampled every 20 ms")


class LoopLag:
    """Wakes up every `INTERVAL_S` and notes how late it was; `late_ms` holds the last minute of it.

    It runs as a task of the loop it measures, so what it sees is what every handler of the process sees.
    """

    def __init__(self) -> None:
        self.late_ms: deque[float] = deque(maxlen=REMEMBERED)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to measure; call it with the loop running."""
        self._task = asyncio.get_running_loop().create_task(self._measure())

    def reset(self) -> None:
        """Forgets what was measured."""
        self.late_ms.clear()

    async def _measure(self) -> None:
        while True:
            due = time.perf_counter() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            late = max(0.0, time.perf_counter() - due)
            _lag.observe(late)
            self.late_ms.append(late * 1000)

    def stop(self) -> None:
        """Ends the measurement."""
        if self._task is not None:
            self._task.cancel()
