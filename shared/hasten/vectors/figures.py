"""How long searches take and why, for whoever operates the store."""

from hasten.telemetry import gauge, histogram

_STEPS = (0.0001, 0.0002, 0.0003, 0.0004, 0.0005, 0.0006, 0.0008, 0.001, 0.0012, 0.0015, 0.002, 0.0025, 0.003, 0.004)
_LATE = (0.005, 0.0065, 0.008, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
searching = histogram(
    "vectors_search_seconds", "How long searches of a collection took", "collection", buckets=_STEPS + _LATE
)
"""Observed from the call to the matches, so it includes waiting for the engine."""
loose = gauge("vectors_loose_points", "Points of an embedded collection that are in no graph yet", "collection")
"""Each search compares with all of them; a compaction takes them in."""
