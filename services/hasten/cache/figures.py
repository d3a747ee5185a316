"""Counts what the cache does, for `$SRV.STATS` and for Prometheus; no tenant, text or key is ever a label."""

from collections import Counter
from typing import Any

from hasten.telemetry import counter, gauge, histogram

_lookups = counter(
    "cache_lookups_total", "Lookups by kind (exact, semantic) and outcome (hit or the miss's reason)", "kind", "outcome"
)
_puts = counter("cache_puts_total", "Puts by outcome: stored, or why not", "outcome")
_removed = counter("cache_removed_total", "Entries removed: invalidated, expired or evicted to make room", "cause")
_widths = counter("cache_wrong_vectors_total", "Vectors of another width than the store's, or that are none")
_entries = gauge("cache_entries", "Entries in the store")
_hot = gauge("cache_hot_entries", "Entries in memory")
_alarm = gauge("cache_embedder_dead", "1 while unrelated questions look alike and hits by meaning are off")
_jumped = gauge("cache_hit_rate_alarm", "1 while the hit rate by meaning is far above what it used to be")
_barrier = histogram("cache_barrier_seconds", "How long invalidations waited for all replicas")


class Figures:
    """The counts of one replica since its start."""

    def __init__(self) -> None:
        self.hits: Counter[str] = Counter()
        self.lookups: Counter[str] = Counter()
        self.misses: Counter[str] = Counter()
        self.puts: Counter[str] = Counter()
        self.removed: Counter[str] = Counter()
        self.invalidations = 0
        self.hit_rate_alarm = False
        self.entries = 0
        self._ages_s = 0.0

    def hit(self, kind: str, asked: str, age_s: float) -> None:
        """A lookup (asked by key: `exact`, by meaning: `semantic`) that found an answer of this kind and age."""
        self.hits[kind] += 1
        self.lookups[asked] += 1
        self._ages_s += age_s
        _lookups.labels(asked, "hit").inc()

    def miss(self, asked: str, reason: str) -> None:
        """A lookup that did not."""
        self.lookups[asked] += 1
        self.misses[reason] += 1
        _lookups.labels(asked, reason).inc()

    def rate_alarm(self, on: bool) -> None:
        """Whether the hit rate by meaning has jumped."""
        self.hit_rate_alarm = on
        _jumped.set(on)

    def put(self, outcome: str) -> None:
        """A put that was `stored`, or the reason why not."""
        self.puts[outcome] += 1
        _puts.labels(outcome).inc()
        if outcome == "stored":
            self.counted(self.entries + 1)

    def gone(self, cause: str, entries: int) -> None:
        """Entries that were removed."""
        self.removed[cause] += entries
        _removed.labels(cause).inc(entries)
        self.counted(max(0, self.entries - entries))

    def counted(self, entries: int) -> None:
        """How many entries the store holds."""
        self.entries = entries
        _entries.set(entries)

    def hot(self, entries: int) -> None:
        """How many entries are in memory."""
        _hot.set(entries)

    def wrong_vector(self) -> None:
        """A vector that cannot be compared with the stored ones."""
        _widths.inc()

    def embedder_dead(self, dead: bool) -> None:
        """Whether hits by meaning are off because of the embedder."""
        _alarm.set(dead)

    def barrier(self, waited_s: float) -> None:
        """An invalidation and how long it waited."""
        self.invalidations += 1
        _barrier.observe(waited_s)

    def report(self) -> dict[str, Any]:
        """Everything, as JSON. `hit_rate` is of lookups: a question that misses by key and hits by meaning is two."""
        hits, lookups = self.hits.total(), self.lookups.total()
        return {
            "entries": self.entries,
            "lookups": dict(self.lookups),
            "hits": dict(self.hits),
            "misses": dict(self.misses),
            "hit_rate": round(hits / lookups, 4) if lookups else 0.0,
            "mean_hit_age_s": round(self._ages_s / hits, 1) if hits else 0.0,
            "hit_rate_alarm": self.hit_rate_alarm,
            "puts": dict(self.puts),
            "evictions": self.removed["evicted"],
            "expired": self.removed["expired"],
            "invalidated": self.removed["invalidated"],
            "invalidations": self.invalidations,
        }
