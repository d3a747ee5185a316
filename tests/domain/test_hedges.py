"""When a second attempt starts, and that there are never more of them than the budget allows."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.orchestrator.hedge import ENOUGH, SAMPLES, Hedges, Times


@given(st.floats(0.001, 1.0), st.floats(0.0, 20.0), st.lists(st.booleans(), max_size=400))
def test_there_are_never_more_than_the_share_of_the_calls(share: float, burst: float, tries: list[bool]) -> None:
    hedges, made = Hedges(share, burst), 0
    for calls, wants in enumerate(tries, 1):
        hedges.called()
        made += wants and hedges.spend()
        assert made <= share * calls + 1e-9


def test_no_more_than_a_burst_is_saved() -> None:
    hedges = Hedges(0.5, 3)
    for _ in range(100):
        hedges.called()
    assert [hedges.spend() for _ in range(5)] == [True, True, True, False, False]


def test_what_was_not_made_is_given_back() -> None:
    hedges = Hedges(1.0)
    hedges.called()
    assert hedges.spend()
    hedges.give_back()
    assert [hedges.spend(), hedges.spend()] == [True, False]


def test_nothing_is_known_before_the_first_measurements_and_nothing_happens_without_a_budget() -> None:
    hedges = Hedges(0.5)
    assert hedges.after_ms("m", 0.0) is None
    assert hedges.after_ms("m", 700.0) == 700.0
    for _ in range(2 * ENOUGH - 1):
        hedges.heard("m", 5.0)
    assert (hedges.after_ms("m", 0.0), hedges.after_ms("other", 0.0)) == (None, None)
    hedges.heard("m", 5.0)
    assert hedges.after_ms("m", 0.0) == 5.0
    assert Hedges(0.0).after_ms("m", 700.0) is None


@pytest.mark.parametrize(("share", "at"), [(0.01, 991.0), (0.03, 971.0), (0.05, 951.0), (0.2, 951.0)])
def test_the_moment_is_the_p95_or_what_the_share_pays_for(share: float, at: float) -> None:
    hedges = Hedges(share)
    for ms in random.Random(4).sample(range(1, 1001), 1000):
        hedges.heard("m", float(ms))
    assert hedges.after_ms("m", 951.0) == at


def test_only_the_latest_times_count() -> None:
    times = Times()
    for ms in range(3 * SAMPLES):
        times.add(float(ms % 7))
    for _ in range(SAMPLES):
        times.add(9.0)
    assert times.exceeded_by(1.0) == 9.0


def test_a_hedge_does_not_hide_how_slow_the_first_attempts_are() -> None:
    """Lower bounds keep the share of the calls that hedge at that of the budget, however many were cut off."""
    draws, hedges, asked = random.Random(1), Hedges(0.03), 0
    for call in range(20_000):
        ms = draws.lognormvariate(4, 0.3) + (2000 * draws.paretovariate(1.5) if draws.random() < 0.02 else 0)
        after_ms = hedges.after_ms("m", 0.0) or 1e9
        asked += ms > after_ms and call >= 10_000
        hedges.heard("m", min(ms, after_ms + draws.lognormvariate(4, 0.3)))
    assert 0.02 < asked / 10_000 < 0.04
