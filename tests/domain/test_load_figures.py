"""The figures of a load test, on samples whose figures are known."""

import tomllib
from typing import Any

import msgspec
import pytest

from loadtest.price import Price, charge
from loadtest.sample import Sample
from loadtest.search import Point, search
from loadtest.summary import Spread, Summary, summary, within
from loadtest.toml_text import written
from loadtest.waterfall import waterfall


def answered(at: int, ttft_ms: float, **more: Any) -> Sample:
    given: dict[str, Any] = {"cache": "miss", "total_ms": ttft_ms + 100, "completion_tokens": 11, "chunks": 5, **more}
    return Sample(index=at, at_s=at * 0.1, ttft_ms=ttft_ms, **given)


HUNDRED = [answered(at, float(at + 1)) for at in range(100)]


def test_percentiles_are_nearest_ranks() -> None:
    assert Spread.of(float(one) for one in range(1, 101)) == Spread(n=100, mean=50.5, p50=50, p95=95, p99=99, most=100)
    assert Spread.of([None, 7.0]) == Spread(n=1, mean=7.0, p50=7, p95=7, p99=7, most=7)
    assert Spread.of([]) == Spread()


def test_rates_are_of_the_time_that_was_taken() -> None:
    found = summary(HUNDRED, late_ms=20)
    assert (found.asked, found.answered, found.failed) == (100, 100, 0)
    assert found.asked_per_s == pytest.approx(100 / 9.9, rel=1e-3)
    assert found.seconds == pytest.approx(10.1)
    assert found.answered_per_s == pytest.approx(100 / 10.1, rel=1e-3)
    assert found.tokens_per_s == pytest.approx(1100 / 10.1, rel=1e-2)
    assert found.invalid == ""


def test_failures_are_counted_by_code_and_are_beyond_every_bound() -> None:
    failed = [
        Sample(index=100 + at, at_s=10.0, outcome="overloaded", detail=f"line {at}", total_ms=3) for at in range(3)
    ]
    cut = Sample(index=103, at_s=10.0, outcome="incomplete", ttft_ms=1.0, total_ms=3)
    found = summary([*HUNDRED, *failed, cut], late_ms=20)
    assert found.outcomes == {"done": 100, "overloaded": 3, "incomplete": 1}
    assert found.details == {"overloaded": "line 0"}
    assert (found.asked, found.failed, found.ttft_ms.n) == (104, 4, 100)
    assert within([*HUNDRED, *failed, cut], 100) == 100 / 104
    assert within(HUNDRED, 50) == 0.5
    assert within([], 50) == 0


def test_a_late_generator_makes_the_run_invalid() -> None:
    late = [msgspec.structs.replace(one, late_ms=50.0 if one.index in (7, 8) else 1.0) for one in HUNDRED]
    found = summary(late, late_ms=20)
    assert "could not keep up" in found.invalid
    assert "50 ms" in found.invalid
    assert summary(late, late_ms=60).invalid == ""
    assert summary([], late_ms=20).invalid == "nothing was asked"


def test_hits_are_told_by_where_the_answer_came_from() -> None:
    kinds = ["exact"] * 20 + ["semantic"] * 10 + ["shared"] * 5 + ["miss"] * 65
    samples = [
        msgspec.structs.replace(one, cache=cache, kind="a" if one.index < 40 else "b", prompt_tokens=1000)
        for one, cache in zip(HUNDRED, kinds, strict=True)
    ]
    for one in samples:
        charge(one, {"": Price(prompt=0.01, completion=0.1)})
    found = summary(samples, late_ms=20)
    assert {name: group.asked for name, group in found.by_source.items()} == {
        "exact": 20,
        "miss": 65,
        "semantic": 10,
        "shared": 5,
    }
    assert found.by_kind["a"].hit_rate == 35 / 40
    assert found.by_kind["b"].hit_rate == 0
    each = (1000 * 0.01 + 11 * 0.1) / 1000
    assert found.cost == pytest.approx(65 * each)
    assert found.cost_per_request == pytest.approx(0.65 * each)
    assert found.saved == pytest.approx(35 * each)
    assert found.by_source["exact"].cost == 0


def test_tokens_are_means_of_the_prompts_that_were_made() -> None:
    made = [answered(0, 5, tokens_before=900, tokens_after=300, prompt_tokens=300, cached_tokens=60)]
    hit = answered(1, 5, cache="exact", prompt_tokens=300, cached_tokens=300)
    found = summary([*made, hit], late_ms=20)
    assert (found.tokens_before, found.tokens_after, found.cached_share) == (900, 300, 0.2)


def test_what_hasten_adds_is_the_first_token_less_the_workers_time() -> None:
    stages = {"first_token": 30.0, "queue": 12.0, "route": 2.0}
    found = summary([answered(0, 40, stages=stages), answered(1, 3, cache="exact")], late_ms=20)
    assert (found.added_ms.n, found.added_ms.p50, found.queue_ms.p50) == (1, 10, 12)
    assert sorted(found.stages_ms) == ["first_token", "queue", "route"]


def blank(rate: float) -> Summary:
    return msgspec.structs.replace(summary(HUNDRED, late_ms=20), asked_per_s=rate)


async def found(limit: float, most: float = 64, steps: int = 4, first: float = 1) -> tuple[Any, list[float]]:
    tried: list[float] = []

    async def attempt(multiple: float) -> Point:
        tried.append(multiple)
        return Point(multiple=multiple, within=1.0, held=multiple <= limit, summary=blank(multiple))

    return await search(attempt, most=most, steps=steps, first=first), tried


async def test_the_search_doubles_until_it_breaks_and_narrows_down() -> None:
    result, tried = await found(11)
    assert tried[:5] == [1, 2, 4, 8, 16]
    assert 10 < result.best.multiple <= 11
    assert [point.multiple for point in result.points] == sorted(tried)
    assert not result.open_end


async def test_the_search_says_when_nothing_broke_or_nothing_held() -> None:
    result, tried = await found(1000, most=12)
    assert (tried, result.best.multiple, result.open_end) == ([1, 2, 4, 8, 12], 12, True)
    result, tried = await found(0.01)
    assert (result.best, tried[-1], result.open_end) == (None, 1 / 16, False)
    result, tried = await found(11, first=4)
    assert (tried[:3], result.open_end) == ([4, 8, 16], False)
    result, _ = await found(0.3)
    assert 0.25 <= result.best.multiple <= 0.3


def test_stages_are_laid_out_by_what_they_wait_for() -> None:
    stages = {
        "exact": 3.0,
        "embed": 8.0,
        "route": 1.0,
        "semantic": 2.0,
        "compress": 4.0,
        "first_token": 50.0,
        "queue": 20,
    }
    bars = {bar.name: (bar.start_ms, bar.end_ms) for bar in waterfall(stages, 70.0, 300.0)}
    assert bars == {
        "exact": (0, 3),
        "embed": (0, 8),
        "semantic": (8, 10),
        "route": (8, 9),
        "compress": (10, 14),
        "queue": (14, 34),
        "first_token": (34, 64),
        "on the way": (64, 70),
        "rest of the answer": (70, 300),
    }
    assert waterfall({}, None, 0.0) == []


def test_tables_written_as_toml_are_read_back() -> None:
    tables = {"a": {"b c": [1, 2.5, {"d": True}], "e": 'say "ä"\n\\'}, "f": "x", "empty": {}}
    assert tomllib.loads(written(tables)) == tables
