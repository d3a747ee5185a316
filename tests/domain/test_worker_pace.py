"""What a worker learns of its pace: never more than it has seen, and nothing for ever."""

import pytest

from hasten.worker.pace import STALE_MS, Pace, wait_ms


def test_nothing_is_claimed_before_something_was_measured_nor_long_after() -> None:
    pace = Pace()
    assert not pace.claims(0.0)
    pace.ended(1000.0, 10, 5.0, 10, 100.0)
    assert pace.claims(1000.0 + STALE_MS - 1)
    assert not pace.claims(1000.0 + STALE_MS + 1)


def test_slow_generations_are_remembered_for_longer() -> None:
    pace = Pace()
    pace.ended(0.0, 10, 5.0, 10, 60_000.0)
    assert pace.claims(4 * 60_000.0 - 1)


def test_the_first_token_is_predicted_by_the_prompt() -> None:
    pace = Pace()
    for at in range(50):
        tokens = 100 + 37 * at % 900
        pace.ended(float(at), tokens, 20.0 + 0.5 * tokens, 11, 20.0 + 0.5 * tokens + 100.0)
    assert pace.first_ms(200) == pytest.approx(120.0, rel=0.02)
    assert pace.first_ms(800) == pytest.approx(420.0, rel=0.02)
    assert pace.slot_ms(200, 512) == pytest.approx(120.0 + 100.0, rel=0.02)
    assert pace.slot_ms(200, 2) == pytest.approx(120.0 + 10.0, rel=0.02)


def test_a_round_trip_is_not_taken_for_a_price_per_token() -> None:
    pace = Pace()
    for at, tokens in enumerate([7, 8, 9, 7, 8, 9]):
        pace.ended(float(at), tokens, 300.0 + (at % 2) * 20.0, 10, 400.0)
    assert pace.first_ms(4000) < 1000.0, "nothing of that size was seen"


def test_longer_prompts_never_seem_quicker() -> None:
    pace = Pace()
    for at, (tokens, first) in enumerate([(100, 50.0), (1000, 10.0), (100, 50.0), (1000, 10.0)]):
        pace.ended(float(at), tokens, first, 10, 200.0)
    assert pace.first_ms(5000) >= pace.first_ms(100) > 0


def test_a_pace_once_too_slow_is_learnt_anew() -> None:
    pace = Pace()
    pace.ended(0.0, 10, 1e6, 10, 2e6)
    for at in range(300):
        pace.ended(float(at), 10, 5.0, 10, 95.0)
    assert pace.first_ms(10) == pytest.approx(5.0, abs=1.0)
    assert pace.slot_ms(10, 512) == pytest.approx(95.0, rel=0.05)


@pytest.mark.parametrize(
    ("ahead", "busy", "free", "wait"),
    [
        (0.0, [50.0, 80.0], 0, 50.0),
        (20.0, [50.0, 80.0], 0, 70.0),
        (30.0, [50.0, 80.0], 0, 80.0),
        (130.0, [50.0, 80.0], 0, 130.0),
        (500.0, [50.0], 1, 0.0),
        (500.0, [], 0, 0.0),
        (90.0, [0.0, 0.0, 0.0], 0, 30.0),
    ],
)
def test_work_ahead_is_poured_over_the_slots(ahead: float, busy: list[float], free: int, wait: float) -> None:
    assert wait_ms(ahead, busy, free) == pytest.approx(wait)
