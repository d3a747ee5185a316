"""Notices that the cache suddenly answers much more by meaning than it used to; pure.

A jump of the hit rate is what a broken embedder, a threshold set too low or a flood of one question look like first.
"""

from collections import deque


class HitRateAlarm:
    """Compares the hit rate of the last `window` lookups by meaning with that of the time before.

    It trips when the rate of the window is above the long-run rate by more than `jump` (0 to 1, in points), and clears
    when the difference is less than half of it. The long-run rate is an exponential mean of the lookups that have left
    the window, with a memory of `memory` lookups, and counts once there have been as many as the window holds. It goes
    on learning while the alarm is on, so that a lasting change becomes the new normal. By chance alone a rate of 200
    lookups is off by 0.035 (one standard deviation) at most, so a jump of 0.2 is no chance.
    """

    def __init__(self, window: int, jump: float, memory: int) -> None:
        self._jump, self._memory = jump, memory
        self._window: deque[bool] = deque(maxlen=max(1, window))
        self._hits = 0
        self._left = 0
        self.long_run = 0.0
        self.on = False

    @property
    def recent(self) -> float:
        """The hit rate of the window."""
        return self._hits / len(self._window) if self._window else 0.0

    def look(self, hit: bool) -> bool:
        """Takes in one lookup; returns whether this one has tripped the alarm."""
        if len(self._window) == self._window.maxlen:
            self._leave(self._window[0])
        self._window.append(hit)
        self._hits += hit
        if self._left < (self._window.maxlen or 0):
            return False
        above = self.recent - self.long_run
        tripped = not self.on and above > self._jump
        self.on = above > (self._jump / 2 if self.on else self._jump)
        return tripped

    def _leave(self, hit: bool) -> None:
        self._hits -= hit
        self._left += 1
        self.long_run += (hit - self.long_run) / min(self._left, self._memory)
