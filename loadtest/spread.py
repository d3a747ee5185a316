"""How some measured times are spread, in the figures that every measurement shows."""

from collections.abc import Sequence

from hasten.bench.figures import percentile


def spread(ms: Sequence[float]) -> dict[str, float]:
    """How many there are, p50, p99 and the largest; without any their number alone."""
    if not ms:
        return {"n": 0}
    parts = {"p50": percentile(ms, 0.5), "p99": percentile(ms, 0.99), "max": max(ms)}
    return {"n": len(ms), **{name: round(value, 2) for name, value in parts.items()}}
