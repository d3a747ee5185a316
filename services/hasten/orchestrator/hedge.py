"""Decides when a second attempt may start: late enough to be worth it, and never more often than a share of the calls.

Pure: times are milliseconds that the caller has measured.
"""

from bisect import bisect_left, insort
from collections import deque

SAMPLES = 1000
"""First-token times kept per model."""
ENOUGH = 3
"""How many of the slowest samples there have to be before their edge is trusted."""


class Times:
    """The last `SAMPLES` times of one model."""

    def __init__(self) -> None:
        self._latest: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, ms: float) -> None:
        """Takes one in, and the oldest out."""
        if len(self._latest) == SAMPLES:
            del self._sorted[bisect_left(self._sorted, self._latest.popleft())]
        self._latest.append(ms)
        insort(self._sorted, ms)

    def exceeded_by(self, share: float) -> float:
        """The time that no more than this share of them exceed; 0 while that would be a handful."""
        slowest = int(share * len(self._sorted))
        return self._sorted[-slowest] if slowest >= ENOUGH else 0.0


class Hedges:
    """The budget of one replica, and what its calls have shown of each model.

    Every call earns `share` of a hedge and a hedge costs one, so that there are at most `share` hedges per call at any
    time; no more than `burst` are saved. The moment is the measured P95, or the quantile that `share` pays for where
    that is later: hedging at the P95 wants 5% of the calls, and a budget of 3% that is spent on the first to come would
    leave two in five of the slowest as they are.
    """

    def __init__(self, share: float, burst: float = 10.0) -> None:
        self._share, self._burst = share, max(1.0, burst)
        self._saved = 0.0
        self._times: dict[str, Times] = {}
        self.counts: dict[str, int] = {}

    def called(self) -> None:
        """Counts a generation that begins."""
        self._saved = min(self._burst, self._saved + self._share)

    def heard(self, slug: str, ms: float) -> None:
        """Takes in how long a first attempt needed for its first word, or was silent when another one was faster: a
        lower bound, which keeps hedges from hiding how slow a model is."""
        self._times.setdefault(slug, Times()).add(ms)

    def after_ms(self, slug: str, p95_ms: float) -> float | None:
        """How long a first attempt is waited for; None while nothing is known, and without a budget.

        `p95_ms` is what the router has measured, 0 if it has not.
        """
        if self._share <= 0:
            return None
        times = self._times.get(slug)
        return max(p95_ms, times.exceeded_by(self._share) if times else 0.0) or None

    def spend(self) -> bool:
        """Pays for a hedge; False when the budget does not allow for it now."""
        if self._saved < 1:
            return False
        self._saved -= 1
        return True

    def give_back(self) -> None:
        """Takes back the payment for a hedge that was not made."""
        self._saved = min(self._burst, self._saved + 1)

    def count(self, outcome: str) -> None:
        """Counts what became of a slow first attempt: `won`, `lost` or `failed` say so of the hedge; it was `denied` by
        the budget, had `nowhere` to go, or was `unneeded`: the first spoke while a worker was looked for."""
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
