"""When the alarm of the hit rate trips, and when it is quiet again."""

import random

import pytest

from hasten.cache.alarm import HitRateAlarm


def looks(alarm: HitRateAlarm, rate: float, count: int, seed: int = 0) -> int:
    """Takes in lookups of which about `rate` are hits; returns how often the alarm tripped."""
    chance = random.Random(seed)
    return sum(alarm.look(chance.random() < rate) for _ in range(count))


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_a_steady_rate_is_quiet(rate: float) -> None:
    alarm = HitRateAlarm(200, 0.2, 4000)
    assert looks(alarm, rate, 20_000) == 0
    assert alarm.long_run == pytest.approx(rate, abs=0.05)


def test_a_jump_trips_once_within_the_window_and_clears_when_it_is_over() -> None:
    alarm = HitRateAlarm(200, 0.2, 4000)
    looks(alarm, 0.1, 5000)
    assert looks(alarm, 0.9, 100) == 1
    assert alarm.on
    assert looks(alarm, 0.9, 100) == 0, "said once"
    assert looks(alarm, 0.1, 400) == 0
    assert not alarm.on


def test_a_lasting_change_becomes_the_new_normal() -> None:
    alarm = HitRateAlarm(200, 0.2, 4000)
    looks(alarm, 0.1, 5000)
    looks(alarm, 0.8, 1000)
    assert alarm.on
    looks(alarm, 0.8, 20_000)
    assert not alarm.on


def test_a_fall_and_a_first_window_are_no_jump() -> None:
    alarm = HitRateAlarm(200, 0.2, 4000)
    assert looks(alarm, 1.0, 399) == 0, "nothing to compare with yet"
    assert looks(alarm, 0.0, 5000) == 0


def test_it_can_be_switched_off() -> None:
    alarm = HitRateAlarm(10, 1.0, 100)
    assert looks(alarm, 0.0, 1000) == looks(alarm, 1.0, 1000) == 0
