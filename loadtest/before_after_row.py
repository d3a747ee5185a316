"""What one run of either system comes to: pure figures of its samples and of what the provider has seen."""

from collections.abc import Sequence

import msgspec

from hasten.bench.figures import percentile
from loadtest.provider import Record, named_in
from loadtest.sample import Sample
from loadtest.stages import SMALL
from loadtest.workload import Request


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles in ms of `count` times."""

    count: int
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0


def spread(values: Sequence[float]) -> Spread:
    """By the nearest rank."""
    if not values:
        return Spread(count=0)
    p50, p95, p99 = (round(percentile(values, share), 1) for share in (0.5, 0.95, 0.99))
    return Spread(count=len(values), p50=p50, p95=p95, p99=p99)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Shares are of all requests unless said otherwise.

    `wrong_hits` are answers served from the cache that were made for another question; `same_intent` of them are for
    one of the same intent of banking77 or clinc150, which nobody has labelled. `rewordings` is, by source, how many
    paraphrases came for the first time and how many of them were hits. `evidence` is the share of the questions of
    nq_open_oracle and hotpot100 (there were `with_evidence`) whose answer was made with all it needs in the prompt.
    `prompt_tokens` are those that came to the provider, per call; `tokens_before` what the compressor was given.
    `held_ms` is how long a slot of the provider was held per request, hits included, and `dollars` what a request cost.
    `simple_small` and `hard_large` say how often the router's choice was that of the label. `late_p99` is how late the
    generator itself was.
    """

    name: str
    repeats: float = 0.0
    rate: float = 0.0
    requests: int = 0
    failed: int = 0
    per_s: float = 0.0
    ttft: Spread
    total: Spread
    hit_ttft: Spread
    hit_total: Spread
    miss_ttft: Spread
    miss_total: Spread
    exact: float = 0.0
    semantic: float = 0.0
    shared: float = 0.0
    rewordings: dict[str, tuple[int, int]] = {}
    wrong_hits: int = 0
    same_intent: int = 0
    calls: int = 0
    dollars: float = 0.0
    prompt_tokens: float = 0.0
    tokens_before: float = 0.0
    held_ms: float = 0.0
    waited: Spread
    with_evidence: int = 0
    evidence: float | None = None
    simple_small: float | None = None
    hard_large: float | None = None
    late_p99: float = 0.0


def row(
    name: str,
    asked: Sequence[Request],
    samples: Sequence[Sample],
    records: Sequence[Record],
    *,
    repeats: float = 0.0,
    rate: float = 0.0,
    streamed: bool = True,
) -> Row:
    """The figures of a run; what is not `streamed` shows its first word with its last."""
    done = [one for one in samples if one.ok]
    hits = [one for one in done if one.hit]
    misses = [one for one in done if not one.hit]

    def first(some: Sequence[Sample]) -> Spread:
        return spread([one.total_ms if not streamed or one.ttft_ms is None else one.ttft_ms for one in some])

    def whole(some: Sequence[Sample]) -> Spread:
        return spread([one.total_ms for one in some])

    def of_all(source: str) -> float:
        return sum(one.cache == source for one in done) / len(samples)

    wrong = _wrong(asked, samples)
    known = {one.question: one.evidence for one in records if one.evidence is not None}
    needing = [(at, one.question) for at, one in enumerate(asked) if one.question.has_evidence and samples[at].ok]
    had = [named_in(samples[at].text) == question.id and known.get(question.id, False) for at, question in needing]
    before = [one.tokens_before for one in done if one.tokens_before]
    return Row(
        name=name,
        repeats=repeats,
        rate=rate,
        requests=len(samples),
        failed=len(samples) - len(done),
        per_s=_per_s(samples),
        ttft=first(done),
        total=whole(done),
        hit_ttft=first(hits),
        hit_total=whole(hits),
        miss_ttft=first(misses),
        miss_total=whole(misses),
        exact=of_all("exact"),
        semantic=of_all("semantic"),
        shared=of_all("shared"),
        rewordings=_rewordings(asked, samples),
        wrong_hits=len(wrong),
        same_intent=sum(wrong),
        calls=len(records),
        dollars=sum(one.dollars for one in records) / len(samples),
        prompt_tokens=_mean([one.prompt_tokens for one in records]),
        tokens_before=_mean(before),
        held_ms=sum(one.held_ms for one in records) / len(samples),
        waited=spread([one.waited_ms for one in records]),
        with_evidence=len(needing),
        evidence=sum(had) / len(had) if had else None,
        simple_small=_agreed(asked, samples, simple=True),
        hard_large=_agreed(asked, samples, simple=False),
        late_p99=spread([one.late_ms for one in samples]).p99,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _per_s(samples: Sequence[Sample]) -> float:
    """Answers per second from the first arrival to the last end."""
    ends = [one.at_s + one.total_ms / 1000 for one in samples if one.ok]
    span = max(ends, default=0.0) - min((one.at_s for one in samples), default=0.0)
    return len(ends) / span if span > 0 else 0.0


def _wrong(asked: Sequence[Request], samples: Sequence[Sample]) -> list[bool]:
    """For each hit on another question whether that has the same intent, as far as the requests know it."""
    labels = {one.question.id: one.question.label for one in asked}
    made = []
    for request, sample in zip(asked, samples, strict=True):
        question = request.question
        if sample.hit and (served := named_in(sample.text)) != question.id:
            made.append(bool(question.label) and labels.get(served) == question.label)
    return made


def _rewordings(asked: Sequence[Request], samples: Sequence[Sample]) -> dict[str, tuple[int, int]]:
    said: set[str] = set()
    made: dict[str, tuple[int, int]] = {}
    for request, sample in zip(asked, samples, strict=True):
        if request.kind == "paraphrase" and request.text not in said:
            said.add(request.text)
            count, hits = made.get(request.question.source, (0, 0))
            made[request.question.source] = (count + 1, hits + (sample.hit and sample.cache == "semantic"))
    return made


def _agreed(asked: Sequence[Request], samples: Sequence[Sample], *, simple: bool) -> float | None:
    """Of the misses with this label, the share that went to the model that the label asks for."""
    chosen = [
        (sample.model == SMALL) == simple
        for request, sample in zip(asked, samples, strict=True)
        if sample.ok and sample.cache == "miss" and request.question.simple == simple
    ]
    return sum(chosen) / len(chosen) if chosen else None
