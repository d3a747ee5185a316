"""Token buckets and budgets: what fits, what drains, and what a request is said to lack."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.caller import Limits
from hasten.gateway.allowance import Amount, Spent, lack_of, shares, shown_duration

NOON_MS = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp() * 1000
LIMITS = Limits(requests_per_minute=60, tokens_per_minute=6000)
STEPS = st.lists(st.tuples(st.floats(0, 90_000), st.integers(0, 8000)), min_size=1, max_size=60)


@given(STEPS, st.integers(1, 200), st.integers(1, 5000))
def test_no_stretch_of_time_sees_more_than_the_limit_and_what_drains_in_it(
    steps: list[tuple[float, int]], requests: int, tokens: int
) -> None:
    limits = Limits(requests_per_minute=requests, tokens_per_minute=tokens)
    spent, now_ms = Spent(), NOON_MS
    let_in: list[tuple[float, int]] = []
    for pause_ms, asked in steps:
        now_ms += pause_ms
        spent = spent.at(now_ms, limits)
        if lack_of(spent, amount := Amount(requests=1, tokens=asked), limits) is None:
            spent = spent.plus(amount)
            let_in.append((now_ms, asked))
    for first in range(len(let_in)):
        for last in range(first, len(let_in)):
            minutes = (let_in[last][0] - let_in[first][0]) / 60_000
            assert last - first + 1 <= requests * (1 + minutes) + 1e-3
            assert sum(asked for _, asked in let_in[first : last + 1]) <= tokens * (1 + minutes) + 1e-3


@given(STEPS)
def test_what_is_lacking_fits_after_the_time_that_was_said(steps: list[tuple[float, int]]) -> None:
    spent, now_ms = Spent(), NOON_MS
    for pause_ms, asked in steps:
        now_ms += pause_ms
        spent, amount = spent.at(now_ms, LIMITS), Amount(requests=1, tokens=asked)
        lack = lack_of(spent, amount, LIMITS)
        if lack is None:
            spent = spent.plus(amount)
        elif lack.wait_ms is None:
            assert asked > LIMITS.tokens_per_minute
        else:
            later = spent.at(now_ms + lack.wait_ms + 1, LIMITS)
            assert (again := lack_of(later, amount, LIMITS)) is None or again.what != lack.what


def test_a_clock_that_is_behind_gives_nothing_back() -> None:
    spent = Spent().at(NOON_MS, LIMITS).plus(Amount(requests=60))
    assert lack_of(spent.at(NOON_MS - 60_000, LIMITS), Amount(requests=1), LIMITS) is not None
    assert spent.at(NOON_MS - 60_000, LIMITS).at_ms == NOON_MS


def test_what_is_given_back_leaves_nothing_below_zero() -> None:
    spent = Spent().at(NOON_MS, LIMITS).plus(Amount(tokens=-500, usd=-1))
    assert (spent.tokens, spent.month_usd) == (0, 0)


@pytest.mark.parametrize(
    ("per", "later", "fits"),
    [
        ("day", datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC), False),
        ("day", datetime(2026, 12, 1, tzinfo=UTC), True),
        ("month", datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC), False),
        ("month", datetime(2026, 12, 1, tzinfo=UTC), True),
        ("month", datetime(2027, 11, 30, 12, tzinfo=UTC), True),
    ],
)
def test_a_budget_is_used_up_until_its_period_ends(per: str, later: datetime, fits: bool) -> None:
    limits = Limits(budget_usd=2, budget_per=per)  # type: ignore[arg-type]
    spent = Spent().at(NOON_MS, limits).plus(Amount(usd=2))
    lack = lack_of(spent, Amount(requests=1), limits)
    assert lack is not None
    assert lack.wait_ms == pytest.approx(43_200_000)
    assert (lack_of(spent.at(later.timestamp() * 1000, limits), Amount(requests=1), limits) is None) == fits


def test_a_day_of_a_month_counts_for_both() -> None:
    tomorrow = datetime(2026, 11, 2, tzinfo=UTC).timestamp() * 1000
    limits = Limits(budget_usd=3, budget_per="month")
    spent = Spent().at(tomorrow - 1, limits).plus(Amount(usd=2)).at(tomorrow, limits).plus(Amount(usd=1))
    assert (spent.day_usd, spent.month_usd) == (1, 3)
    assert lack_of(spent, Amount(), limits) is not None


def test_a_limit_that_is_changed_holds_at_once() -> None:
    spent = Spent().at(NOON_MS, LIMITS).plus(Amount(requests=30))
    assert lack_of(spent, Amount(requests=1), LIMITS) is None
    assert lack_of(spent, Amount(requests=1), Limits(requests_per_minute=20)) is not None
    assert shares(spent, Limits(requests_per_minute=20))["requests"].remaining == 0
    assert shares(spent, LIMITS)["requests"].remaining == 30
    assert shares(spent, Limits()) == {}


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(0, "0ms"), (0.2, "1ms"), (120, "120ms"), (1000, "1s"), (1500, "1.5s"), (59_999, "1m0s"), (360_000, "6m0s")],
)
def test_a_duration_is_shown_as_openai_shows_it(ms: float, shown: str) -> None:
    assert shown_duration(ms) == shown


def test_a_clock_that_had_jumped_ahead_keeps_nothing_from_draining() -> None:
    jumped = NOON_MS + 365 * 86_400_000
    spent = Spent(at_ms=jumped, requests=60, tokens=6000, day_usd=1.0, month_usd=2.0).at(NOON_MS, LIMITS)
    assert spent == Spent(at_ms=NOON_MS, requests=60, tokens=6000, day_usd=1.0, month_usd=2.0)
    assert spent.at(NOON_MS + 60_000, LIMITS).requests == 0
