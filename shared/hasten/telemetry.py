"""Logs, metrics and stage times; no prompt, answer, document, vector or secret ever passes through here."""

import logging
import os
import sys
import time
import traceback
from collections.abc import Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

REGISTRY = CollectorRegistry()
"""The metrics of this process, and of itself as a process; the gateway and `hasten run --metrics` expose them."""
ProcessCollector(registry=REGISTRY)
disable_created_metrics()  # type: ignore[no-untyped-call]
PER_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
"""Buckets for the time of one token: those of OpenTelemetry's GenAI conventions, and finer ones below."""
MOST_NAMES = 64
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 30.0)


def logger(name: str) -> logging.Logger:
    """The logger `hasten.<name>`."""
    return logging.getLogger(f"hasten.{name}")


def configure_logging() -> None:
    """Sends hasten's log to stderr at HASTEN_LOG (default warning); libraries stay at warning."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger("hasten")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(os.environ.get("HASTEN_LOG", "warning").upper())


def where(error: BaseException) -> str:
    """The kind of an error and the lines that led to it, for a log; its text is left out, for it can quote a prompt."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__} at {places}" if places else type(error).__name__


def counter(name: str, text: str, *labels: str) -> Counter:
    """A Prometheus counter `hasten_<name>` in our registry."""
    return Counter(f"hasten_{name}", text, labels, registry=REGISTRY)


def gauge(name: str, text: str, *labels: str) -> Gauge:
    """A Prometheus gauge `hasten_<name>` in our registry."""
    return Gauge(f"hasten_{name}", text, labels, registry=REGISTRY)


def histogram(name: str, text: str, *labels: str, buckets: Sequence[float] = _SECONDS) -> Histogram:
    """A Prometheus histogram `hasten_<name>` in our registry; of seconds, unless other buckets are given."""
    return Histogram(f"hasten_{name}", text, labels, registry=REGISTRY, buckets=buckets)


class Names:
    """Keeps a label of names that callers bring to so many values: what is new beyond that counts as `other`."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._most, self._known = most, set[str]()

    def of(self, name: str) -> str:
        """The value for a name."""
        if name in self._known:
            return name
        if len(self._known) >= self._most:
            return "other"
        self._known.add(name)
        return name


class Stopwatch:
    """Milliseconds per stage of one request, each from the moment the stopwatch was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self.stages: dict[str, float] = {}

    def elapsed_ms(self) -> float:
        """Milliseconds since it was made."""
        return (time.perf_counter() - self._start) * 1000

    def record(self, stage: str, since_ms: float) -> None:
        """Records that `stage` took from `since_ms` (of `elapsed_ms`) until now."""
        self.stages[stage] = round(self.elapsed_ms() - since_ms, 3)
