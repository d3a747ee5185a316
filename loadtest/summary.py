"""What a run comes to: percentiles, rates, costs and failures of its samples; pure.

A failed request is in every count and share. It has no first token, so shares within a bound count it as too late.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from hasten.bench.figures import percentile
from loadtest.sample import Sample


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """`n` times in ms: nearest-rank percentiles, None of nothing."""

    n: int = 0
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    most: float | None = None

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Spread":
        """Of the values that there are."""
        there = [value for value in values if value is not None]
        if not there:
            return cls()
        p50, p95, p99 = (round(percentile(there, share), 3) for share in (0.5, 0.95, 0.99))
        mean = round(sum(there) / len(there), 3)
        return cls(n=len(there), mean=mean, p50=p50, p95=p95, p99=p99, most=round(max(there), 3))


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one kind, or from one source: how many, their share of all, how many were answered, and hits
    among these."""

    asked: int
    share: float
    answered: int
    hits: int
    ttft_ms: Spread
    total_ms: Spread
    cost: float
    saved: float

    @property
    def hit_rate(self) -> float | None:
        """Hits among the answered."""
        return self.hits / self.answered if self.answered else None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A run of `seconds`, from the first moment to the last end.

    `asked_per_s` is of the time in which requests came, `answered_per_s` of all. Times count from when a request was
    due. `late_ms` is the generator's own lateness. `queue_ms` is the wait for a slot of the engine, `added_ms`
    what a first token took beyond its worker's time and `stages_ms` the orchestrator's times, each of the answers that
    tell them. Tokens are means per prompt that was made. `details` is what the
    first failure of each code said. `cost` is of
    all answers, `cost_per_request` per request asked; `saved` is what hits would have cost as misses. `invalid` says
    why the figures must not be believed, empty if they may.
    """

    asked: int
    answered: int
    seconds: float
    asked_per_s: float
    answered_per_s: float
    tokens_per_s: float
    outcomes: dict[str, int]
    ttft_ms: Spread
    tpot_ms: Spread
    gap_ms: Spread
    total_ms: Spread
    queue_ms: Spread
    added_ms: Spread
    late_ms: Spread
    stages_ms: dict[str, Spread]
    by_source: dict[str, Group]
    by_kind: dict[str, Group]
    tokens_before: float | None
    tokens_after: float | None
    cached_share: float | None
    cost: float
    cost_per_request: float
    saved: float
    details: dict[str, str] = {}
    invalid: str = ""

    @property
    def failed(self) -> int:
        """Requests without a whole answer."""
        return self.asked - self.answered


def within(samples: Sequence[Sample], ttft_ms: float) -> float:
    """The share of all requests that were answered and had their first token within a bound."""
    good = sum(one.ok and one.ttft_ms is not None and one.ttft_ms <= ttft_ms for one in samples)
    return good / len(samples) if samples else 0.0


def summary(samples: Sequence[Sample], *, late_ms: float) -> Summary:
    """The figures of a run; one whose generator was more than `late_ms` late for 1% of the requests is not valid."""
    answered = [one for one in samples if one.ok]
    ends = [one.at_s + one.total_ms / 1000 for one in samples]
    seconds, came = max(ends, default=0.0), max((one.at_s for one in samples), default=0.0)
    made = [one for one in answered if one.tokens_after is not None]
    misses = [one for one in answered if not one.hit and one.prompt_tokens]
    late, computed = Spread.of(one.late_ms for one in samples), sum(one.prompt_tokens for one in misses)
    return Summary(
        asked=len(samples),
        answered=len(answered),
        seconds=round(seconds, 3),
        asked_per_s=round(len(samples) / came, 3) if came else 0.0,
        answered_per_s=round(len(answered) / seconds, 3) if seconds else 0.0,
        tokens_per_s=round(sum(one.completion_tokens for one in answered) / seconds, 1) if seconds else 0.0,
        outcomes=dict(Counter(one.outcome for one in samples).most_common()),
        ttft_ms=Spread.of(one.ttft_ms for one in answered),
        tpot_ms=Spread.of(one.tpot_ms for one in answered),
        gap_ms=Spread.of(one.gap_ms for one in answered if one.chunks > 1),
        total_ms=Spread.of(one.total_ms for one in answered),
        queue_ms=Spread.of(one.stages.get("queue") for one in answered),
        added_ms=Spread.of(_added(one) for one in answered),
        late_ms=late,
        stages_ms={name: Spread.of(one.stages.get(name) for one in answered) for name in _stages(answered)},
        by_source=_groups(answered, len(samples), [one.cache or "unknown" for one in answered]),
        by_kind=_groups(samples, len(samples), [one.kind or "all" for one in samples]),
        tokens_before=_mean([one.tokens_before for one in made if one.tokens_before is not None]),
        tokens_after=_mean([one.tokens_after for one in made if one.tokens_after is not None]),
        cached_share=round(sum(one.cached_tokens for one in misses) / computed, 4) if computed else None,
        cost=sum(one.cost for one in samples),
        cost_per_request=sum(one.cost for one in samples) / max(1, len(samples)),
        saved=sum(one.saved for one in samples),
        details={one.outcome: one.detail for one in reversed(samples) if one.detail},
        invalid=_invalid(samples, late, late_ms),
    )


def _invalid(samples: Sequence[Sample], late: Spread, late_ms: float) -> str:
    if not samples:
        return "nothing was asked"
    if late.p99 is not None and late.p99 > late_ms:
        return (
            f"the generator could not keep up: 1% of the requests began {late.p99:.0f} ms or more after they were due"
        )
    return ""


def _added(sample: Sample) -> float | None:
    worker_ms = sample.stages.get("first_token")
    return None if worker_ms is None or sample.ttft_ms is None else max(0.0, sample.ttft_ms - worker_ms)


def _stages(samples: Sequence[Sample]) -> list[str]:
    return sorted({name for one in samples for name in one.stages})


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 1) if values else None


def _groups(samples: Sequence[Sample], all_: int, names: Sequence[str]) -> dict[str, Group]:
    found: dict[str, list[Sample]] = {}
    for name, one in zip(names, samples, strict=True):
        found.setdefault(name, []).append(one)
    return {name: _group(some, all_) for name, some in sorted(found.items())}


def _group(samples: Sequence[Sample], all_: int) -> Group:
    answered = [one for one in samples if one.ok]
    return Group(
        asked=len(samples),
        share=round(len(samples) / all_, 4),
        answered=len(answered),
        hits=sum(one.hit for one in answered),
        ttft_ms=Spread.of(one.ttft_ms for one in answered),
        total_ms=Spread.of(one.total_ms for one in answered),
        cost=sum(one.cost for one in samples),
        saved=sum(one.saved for one in samples),
    )
