"""What the benchmark says: figures beside their budgets; pure."""

import math
from collections.abc import Sequence

import msgspec

from hasten.bench.chunk_delay import Tapped


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `p50_ms` and `p99_ms` are of `samples` measurements; `baseline_ms` is the p50 it is compared with and
    `ratio` the quotient of the two. `per_s` is how many were done in a second, where several were done at once.
    `budget` says in words what `met` was decided by; `met` is None without one."""

    what: str
    p50_ms: float
    p99_ms: float
    samples: int
    baseline: str = ""
    baseline_ms: float | None = None
    ratio: float | None = None
    per_s: float | None = None
    budget: str = ""
    met: bool | None = None


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the least of the values that this share of them does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def figure(
    what: str,
    values: Sequence[float],
    *,
    baseline: tuple[str, Sequence[float]] | None = None,
    budget: str = "",
    p50: float | None = None,
    p99: float | None = None,
) -> Figure:
    """A row from its measurements (ms); `p50` and `p99` are the limits that the budget sets on each."""
    middle, high = percentile(values, 0.5), percentile(values, 0.99)
    base = percentile(baseline[1], 0.5) if baseline else None
    met = None
    if p50 is not None or p99 is not None:
        met = (p50 is None or middle <= p50) and (p99 is None or high <= p99)
    return Figure(
        what=what,
        p50_ms=round(middle, 3),
        p99_ms=round(high, 3),
        samples=len(values),
        baseline=baseline[0] if baseline else "",
        baseline_ms=None if base is None else round(base, 3),
        ratio=round(middle / base, 2) if base else None,
        budget=budget,
        met=met,
    )


class Together(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements (ms) of what was done by `parallel` callers at once, in `seconds` altogether."""

    parallel: int
    seconds: float
    times: list[float]


class Measured(msgspec.Struct, kw_only=True):
    """Everything that was measured, in ms: round trips of bare NATS, embeddings, and the paths through hasten.

    `loose` entries were in no graph when searches were measured.
    `lookup` is the semantic lookup as the orchestrator saw it (search and round trip), `search` the bounds in seconds
    that half and 99% of the searches inside it kept, and their number. `overhead` is a miss's time to the first chunk
    less the worker's own, `chunks` how long each chunk of a worker took to its reader. `invalidate` removes one entry
    by a tag, `invalidate_many` removes `tagged` entries by one.
    """

    entries: int = 0
    loose: int = 0
    bare: list[float] = []
    embed: list[float] = []
    exact_first: list[float] = []
    exact_whole: list[float] = []
    semantic: list[float] = []
    lookup: list[float] = []
    route: list[float] = []
    engine: list[float] = []
    overhead: list[float] = []
    search: tuple[float, float, int] | None = None
    exact_many: Together | None = None
    lookup_many: Together | None = None
    put: list[float] = []
    put_many: Together | None = None
    invalidate: list[float] = []
    invalidate_many: list[float] = []
    tagged: int = 0
    chunks: Tapped | None = None


def figures(seen: Measured) -> list[Figure]:
    """The rows of the budget table that were measured."""
    bare = ("bare NATS", seen.bare)
    rows = [figure("bare NATS request-reply", seen.bare), figure("embedding", seen.embed, baseline=bare)]
    return [*rows, *_hits(seen), *_writes(seen), *_model(seen), *_chunks(seen)]


def _chunks(seen: Measured) -> list[Figure]:
    if seen.chunks is None:
        return []
    what = f"added per chunk, {seen.chunks.streams} streams at once"
    baseline = ("bare NATS relay", seen.chunks.bare)
    return [figure(what, seen.chunks.chunks, baseline=baseline, budget="p99 ≤ 2 ms", p99=2)]


def _hits(seen: Measured) -> list[Figure]:
    bare, embed = ("bare NATS", seen.bare), ("embedding", seen.embed)
    trip, vector = percentile(seen.bare, 0.5), percentile(seen.embed, 0.5)
    rows = []
    if seen.exact_first:
        rows += [
            figure(
                "exact hit, publish to first chunk",
                seen.exact_first,
                baseline=bare,
                budget="p50 ≤ 3 bare NATS request-replies, p99 ≤ 5 ms",
                p50=3 * trip,
                p99=5,
            ),
            figure("whole cached answer", seen.exact_whole, budget="p50 ≤ 15 ms, p99 ≤ 25 ms", p50=15, p99=25),
        ]
    rows += _together("exact hits", seen.exact_many)
    if seen.semantic:
        count = f"{seen.entries:,} entries"
        budget = "p50 ≤ the embedding + 5 ms"
        rows.append(figure(f"semantic hit at {count}", seen.semantic, baseline=embed, budget=budget, p50=vector + 5))
        budget = "p50 ≤ 2 ms + a bare round trip"
        rows.append(figure("  of which the lookup", seen.lookup, baseline=bare, budget=budget, p50=trip + 2))
    if seen.search:
        rows.append(_search(*seen.search))
    return rows + _together("lookups by meaning", seen.lookup_many)


def _search(half_s: float, most_s: float, samples: int) -> Figure:
    p50, p99 = round(half_s * 1000, 3), round(most_s * 1000, 3)
    what, budget = "  of which the search (at most)", "p50 ≤ 2 ms"
    return Figure(what=what, p50_ms=p50, p99_ms=p99, samples=samples, budget=budget, met=p50 <= 2)


def _writes(seen: Measured) -> list[Figure]:
    bare = ("bare NATS", seen.bare)
    rows = [figure("put", seen.put, baseline=bare)] if seen.put else []
    rows += _together("puts", seen.put_many)
    if seen.invalidate:
        rows.append(figure("invalidation by tag, one entry", seen.invalidate, baseline=bare))
    if seen.invalidate_many:
        what = f"invalidation by tag, {seen.tagged:,} entries"
        rows.append(figure(what, seen.invalidate_many, baseline=bare))
    return rows


def _together(what: str, many: Together | None) -> list[Figure]:
    if many is None:
        return []
    row = figure(f"{what}, {many.parallel} at once", many.times)
    return [msgspec.structs.replace(row, per_s=round(len(many.times) / many.seconds, 1))]


def _model(seen: Measured) -> list[Figure]:
    bare, embed = ("bare NATS", seen.bare), ("embedding", seen.embed)
    trip, vector = percentile(seen.bare, 0.5), percentile(seen.embed, 0.5)
    rows = []
    if seen.overhead:
        rows.append(figure("engine's own time to first token", seen.engine))
        budget = "p50 ≤ the embedding + 7 ms"
        rows.append(figure("miss, added to it", seen.overhead, baseline=embed, budget=budget, p50=vector + 7))
    budget = "p50 ≤ 1 ms + a bare round trip"
    rows.append(figure("route, given the vector", seen.route, baseline=bare, budget=budget, p50=trip + 1))
    return rows
