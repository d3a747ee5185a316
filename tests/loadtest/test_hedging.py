"""What the rule of hedging is worth in virtual time."""

import pytest

from loadtest.hedging import TAILS, virtual


@pytest.mark.parametrize("tail", sorted(TAILS))
def test_no_tail_gets_longer_and_the_budget_is_kept(tail: str) -> None:
    without, hedged = virtual(tail, 0.0, 8000), virtual(tail, 0.03, 8000)
    assert (without["extra_calls"], hedged["extra_calls"] <= 0.03) == (0.0, True)
    assert hedged["p99_ms"] <= without["p99_ms"]
    assert hedged["p50_ms"] == pytest.approx(without["p50_ms"], rel=0.05)


def test_the_p99_of_engines_that_stall_is_far_more_than_halved() -> None:
    assert virtual("stalls", 0.03)["p99_ms"] < 0.2 * virtual("stalls", 0.0)["p99_ms"]
