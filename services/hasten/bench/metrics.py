"""What a running system says in its own metrics: histograms, as counts by upper bound in seconds."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

Buckets = dict[float, int]
"""How many observations were at most that long, cumulative; the last bound is infinite."""
LAG = "hasten_loop_lag_seconds"
SEARCH = "hasten_vectors_search_seconds"
LOOSE = "hasten_vectors_loose_points"
LATE_S = 0.02


class Metrics:
    """The metrics of one moment."""

    def __init__(self, text: str = "") -> None:
        self._families = list(text_string_to_metric_families(text))

    @classmethod
    async def read(cls, http: str) -> "Metrics":
        """Those of the gateway at this address; empty when it does not say."""
        try:
            async with httpx.AsyncClient(timeout=5) as client:
                return cls((await client.get(f"{http}/metrics")).raise_for_status().text)
        except (httpx.HTTPError, httpx.InvalidURL):
            return cls()

    def value(self, name: str, **labels: str) -> float | None:
        """A gauge, None when there is none."""
        for family in self._families:
            for one in family.samples if family.name == name else []:
                if labels.items() <= one.labels.items():
                    return float(one.value)
        return None

    def buckets(self, name: str, **labels: str) -> Buckets:
        """A histogram, summed over what the labels leave open."""
        found: Buckets = {}
        for family in self._families:
            for one in family.samples if family.name == name else []:
                if one.name == f"{name}_bucket" and labels.items() <= one.labels.items():
                    bound = float(one.labels["le"])
                    found[bound] = found.get(bound, 0) + int(one.value)
        return found


def between(before: Buckets, after: Buckets) -> Buckets:
    """What was observed from one moment to a later one."""
    return {bound: count - before.get(bound, 0) for bound, count in after.items()}


def total(seen: Buckets) -> int:
    """How many observations there were."""
    return max(seen.values(), default=0)


def above(seen: Buckets, limit_s: float) -> int:
    """How many took longer than a bound of the histogram."""
    return total(seen) - seen.get(limit_s, 0)


def at_most(seen: Buckets, share: float) -> float:
    """The least bound, in seconds, that this share of the observations kept; infinite when none did."""
    wanted = share * total(seen)
    return min((bound for bound, count in seen.items() if count >= wanted), default=float("inf"))
