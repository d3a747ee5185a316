"""The report of the before-and-after: what it says first, and the rates within a bound."""

from typing import Any

import pytest

from loadtest.before_after import BOUNDS, naive_rate
from loadtest.before_after_report import LEAD, Bound, Report, Step, filled, page_of, tables
from loadtest.before_after_row import Row, Spread, spread
from loadtest.stages import FIRST, STACKS


def row(name: str, **about: Any) -> Row:
    names = ("ttft", "total", "hit_ttft", "hit_total", "miss_ttft", "miss_total", "waited")
    times: dict[str, Any] = {one: spread([300.0, 380.0]) for one in names}
    return Row(name=name, **times, **{"held_ms": 500.0, **about})


def report(*steps: Step) -> Report:
    return Report(
        stack=FIRST,
        slots=8,
        token_budget=400,
        passages=12,
        naive=[row("naive"), row("naive, streamed"), row("naive, saturated", rate=2.4)],
        main=[row("hasten", repeats=0.2), row("hasten", repeats=0.35, dollars=0.001), row("hasten", repeats=0.55)],
        by_label=row("hasten, models by label", repeats=0.35),
        saturated=[row("hasten, saturated", repeats=share, rate=15.0) for share in (0.2, 0.35, 0.55)],
        ladder=list(steps),
        bounds=[Bound(ms=400.0, whole=False, naive=0.0), Bound(ms=4800.0, whole=True, naive=1.5)],
        levers=[row("streaming"), row("all together")],
    )


def step(rate: float, ttft_p95: float, failed: int = 0) -> Step:
    return Step(rate=rate, ttft_p95=ttft_p95, ttft_p99=ttft_p95, total_p95=2 * ttft_p95, failed=failed)


def test_the_first_line_says_what_is_simulated() -> None:
    found = report(step(3.0, 300.0))
    page = page_of(found)
    assert page.index(LEAD) < page.index("<h1>")
    assert "http" not in page.replace("http-equiv", "")
    assert [len(cells) for table in tables(found) for cells in table.rows] == [
        len(table.columns) for table in tables(found) for _ in table.rows
    ]


def test_the_headline_is_at_35_percent() -> None:
    assert report().headline.repeats == 0.35
    assert tables(report())[0].rows[7][2] == 0.001


def test_a_rate_counts_up_to_the_first_one_beyond_the_bound() -> None:
    found = report(step(6.0, 500.0), step(3.0, 300.0), step(9.0, 300.0))
    assert found.rate_within(400.0, whole=False) == 3.0
    assert found.rate_within(1000.0, whole=True) == 9.0
    assert report(step(3.0, 300.0, failed=1)).rate_within(400.0, whole=False) == 0.0


def test_no_naive_request_is_faster_than_its_stages() -> None:
    assert naive_rate(FIRST, FIRST.total_ms - 1) == 0.0
    within, beyond = naive_rate(FIRST, FIRST.total_ms), naive_rate(FIRST, 4800.0)
    assert 0 < within < beyond < 8000 / FIRST.total_ms
    assert all(bounds for bounds in BOUNDS.values())
    assert set(BOUNDS) == set(STACKS)


def test_percentiles_are_by_the_nearest_rank() -> None:
    assert spread([float(at) for at in range(1, 101)]) == Spread(count=100, p50=50.0, p95=95.0, p99=99.0)
    assert spread([]) == Spread(count=0)


def test_a_page_gets_the_tables_of_its_stack_each_time_anew() -> None:
    text = "Above.\n<!-- stack 1 -->\nold\n<!-- end of stack 1 -->\nBelow."
    once = filled(text, report(step(3.0, 300.0)))
    assert once.startswith("Above.\n<!-- stack 1 -->\n\n### Headline, stack 1\n\n|  | naive | hasten | times |\n")
    assert once.endswith("\n<!-- end of stack 1 -->\nBelow.")
    assert filled(once, report(step(3.0, 300.0))) == once
    with pytest.raises(ValueError, match="no place for the tables"):
        filled("no marks", report())
