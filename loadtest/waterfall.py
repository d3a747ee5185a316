"""Where the time of an answer goes: the stages laid out in the order in which the path runs them; pure.

The orchestrator tells how long each stage took. When it began follows from what it waits for: the question is embedded
beside the exact lookup, then lookup by meaning, retrieval and routing run together, then the prompt is made.
"""

from collections.abc import Mapping

import msgspec

_WAITS: dict[str, tuple[str, ...]] = {
    "exact": (),
    "embed": (),
    "semantic": ("embed",),
    "retrieve": ("embed",),
    "route": ("embed",),
    "lease": ("embed",),
    "compress": ("retrieve", "route", "semantic"),
    "queue": ("compress", "lease"),
    "first_token": ("queue",),
}
"""What each stage waits for."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A stage from `start_ms` to `end_ms` of the orchestrator's clock."""

    name: str
    start_ms: float
    end_ms: float


def waterfall(stages: Mapping[str, float], ttft_ms: float | None, total_ms: float) -> list[Bar]:
    """The bars of typical times by stage. The wait for a slot is part of what the orchestrator counts as first token:
    it is taken out of it. `on the way` is what the reader waits for besides, and the last bar ends with the answer."""
    took = dict(stages)
    if "queue" in took and "first_token" in took:
        took["first_token"] = max(0.0, took["first_token"] - took["queue"])
    ends: dict[str, float] = {}
    bars: list[Bar] = []
    for name, waits in _WAITS.items():
        if name in took:
            start = max((ends[before] for before in waits if before in ends), default=_last(ends, waits))
            ends[name] = start + took[name]
            bars.append(Bar(name=name, start_ms=start, end_ms=ends[name]))
    made = max(ends.values(), default=0.0)
    first = max(made, ttft_ms or 0.0)
    if bars and first > made:
        bars.append(Bar(name="on the way", start_ms=made, end_ms=first))
    if total_ms > first:
        bars.append(Bar(name="rest of the answer", start_ms=first, end_ms=total_ms))
    return bars


def _last(ends: Mapping[str, float], waits: tuple[str, ...]) -> float:
    """Where a stage begins when nothing that it waits for was timed: after all before it, or at once."""
    return max(ends.values(), default=0.0) if waits else 0.0
