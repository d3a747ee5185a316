"""The circuit breaker of one worker: decides by results alone; pure, the time is always given."""

from typing import Literal

import msgspec

from hasten.router.window import FAULTS

State = Literal["closed", "open", "half_open"]
SUCCESS = "done"
_AGAIN_S = 0.25


class BreakerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a breaker opens, and for how long.

    It opens when at least `failures` results of late and the share `rate` of all were failures; a result counts half
    after every `half_life_s`. It stays open for `open_s`, then lets `probes` requests through at a time: a success
    closes it, a failure opens it for twice as long as before, `most_s` at the most. A probe of which nothing is heard
    for `probe_s` is taken for lost, and another may follow.
    """

    failures: float = 3.0
    rate: float = 0.5
    half_life_s: float = 10.0
    open_s: float = 2.0
    most_s: float = 60.0
    probes: int = 1
    probe_s: float = 10.0


class Breaker:
    """Closed while results are good, open after failures, then half open. Times are seconds of one monotonic clock.

    Callers tell it each result (`record`) and each request let through (`sent`); `allows` says whether one may go.
    """

    def __init__(self, policy: BreakerPolicy) -> None:
        self._policy = policy
        self._good = self._bad = self._counted_s = 0.0
        self._opened_s: float | None = None
        self._wait_s = policy.open_s
        self._probes: list[float] = []

    def state(self, now_s: float) -> State:
        """What it is at this moment: an open one is half open as soon as its time has passed."""
        if self._opened_s is None:
            return "closed"
        return "open" if now_s < self._opened_s + self._wait_s else "half_open"

    def allows(self, now_s: float) -> bool:
        """Whether another request may be sent."""
        state = self.state(now_s)
        return state == "closed" or (state == "half_open" and self._out(now_s) < self._policy.probes)

    def closed_in_s(self, now_s: float) -> float:
        """How long until it is worth asking again; 0 when a request may be sent. How a probe ends is soon known."""
        if self.allows(now_s) or self._opened_s is None:
            return 0.0
        return self._opened_s + self._wait_s - now_s if self.state(now_s) == "open" else _AGAIN_S

    def _out(self, now_s: float) -> int:
        return sum(1 for at in self._probes if now_s - at < self._policy.probe_s)

    def sent(self, now_s: float) -> None:
        """Counts a request: a probe, when it is half open."""
        if self.state(now_s) == "half_open":
            self._probes = [at for at in self._probes if now_s - at < self._policy.probe_s] + [now_s]

    def record(self, outcome: str, now_s: float) -> None:
        """Takes in how a request ended: `done`, or the code of a failure. Only faults of the model or its worker count:
        overload, refusals and callers who left say nothing of its health."""
        good = outcome == SUCCESS
        if not good and outcome not in FAULTS:
            self._returned(now_s)
            return
        state = self.state(now_s)
        self._fade(now_s)
        self._good, self._bad = self._good + good, self._bad + (not good)
        if state == "closed" and self._too_many():
            self._open(now_s, self._policy.open_s)
        elif state == "half_open" and good:
            self._close()
        elif state == "half_open":
            self._open(now_s, min(2 * self._wait_s, self._policy.most_s))

    def _returned(self, now_s: float) -> None:
        """A probe that proved nothing makes room for another."""
        if self.state(now_s) == "half_open" and self._probes:
            del self._probes[0]

    def _too_many(self) -> bool:
        policy = self._policy
        return self._bad >= policy.failures - 0.5 and self._bad >= policy.rate * (self._good + self._bad)

    def _open(self, now_s: float, wait_s: float) -> None:
        self._opened_s, self._wait_s, self._probes = now_s, wait_s, []

    def _close(self) -> None:
        self._opened_s, self._wait_s, self._probes = None, self._policy.open_s, []
        self._good = self._bad = 0.0

    def _fade(self, now_s: float) -> None:
        factor = 0.5 ** (max(0.0, now_s - self._counted_s) / self._policy.half_life_s)
        self._good, self._bad, self._counted_s = self._good * factor, self._bad * factor, now_s
