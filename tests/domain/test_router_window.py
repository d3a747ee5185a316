"""A latency window fades by time, is safe with few samples, and counts only what tells of the model's own speed."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from hasten.messages.attempt import Attempted
from hasten.router.window import Latency, Window

NOW = 1_800_000_000.0


def event(
    seq: int, ms: float = 0.0, at: float = NOW - 1, *, outcome: str = "done", total: float = 0.0, worker: str = "w1"
) -> Attempted:
    return Attempted(
        source="o",
        seq=seq,
        at_ms=at * 1000,
        flight=f"f{seq}",
        worker=worker,
        outcome=outcome,
        ttft_ms=ms,
        total_ms=total or ms,
    )


def filled(*samples: float, at: float = NOW - 1) -> Window:
    window = Window()
    for seq, ms in enumerate(samples):
        window.add(event(seq, ms, at))
    return window


def expected(window: Window, prior_ms: float = 500.0, now: float = NOW) -> Latency:
    return window.latency(prior_ms, now)


def test_without_samples_the_prior_is_expected() -> None:
    assert expected(Window()) == (500, 500, 0, False, 0.0, 0.0)


def test_one_sample_is_mixed_with_the_prior() -> None:
    latency = expected(filled(1500))
    assert latency.p95_ms == pytest.approx(500 * 3**0.1, rel=0.01)
    assert (latency.samples, latency.known) == (1, False)


def test_the_first_answer_of_a_minute_does_not_make_a_model_slow() -> None:
    """As when its weights were being loaded."""
    assert expected(filled(60_000)).p95_ms < 1000


def test_enough_samples_replace_the_prior() -> None:
    latency = expected(filled(*range(1, 102)), 5000)
    assert (latency.p50_ms, latency.p95_ms, latency.samples, latency.known) == (51, 96, 101, True)


def test_one_outlier_among_few_is_not_the_p95() -> None:
    assert expected(filled(*[300] * 11, 60_000), 300).p95_ms == 300
    assert expected(filled(*[300] * 11, *[60_000] * 2), 300).p95_ms > 3000


def test_only_the_last_thousand_count() -> None:
    window = filled(*[9000] * 500, *[100] * 1000)
    assert expected(window, 0)[:4] == (100, 100, 1000, True)


def test_old_samples_fade_and_then_leave() -> None:
    window = filled(*[9000] * 40, at=NOW)
    assert expected(window, 400, NOW + 1).p95_ms == 9000
    half_faded = expected(window, 400, NOW + 500)
    assert not half_faded.known
    assert 400 < half_faded.p95_ms < 9000
    assert expected(window, 400, NOW + 7200)[:4] == (400, 400, 0, False)


def test_new_samples_outweigh_old_ones() -> None:
    window = filled(*[5000] * 60, at=NOW - 540)
    for seq in range(60):
        window.add(event(100 + seq, 200))
    assert expected(window, 0).p50_ms == 200


def test_a_worker_that_dies_with_all_its_requests_is_one_slow_sample() -> None:
    """What it had in hand fails at once; the model is as fast as before on the others."""
    dies, fails = filled(*[200] * 60), filled(*[200] * 60)
    for seq in range(100, 116):
        dies.add(event(seq, outcome="incomplete", worker="w9"))
        fails.add(event(seq, outcome="upstream", worker="w9"))
    assert expected(dies).p95_ms == 200
    assert expected(fails).p95_ms == 10_000, "an engine that answers with errors does so each time"
    assert expected(dies).error_rate == pytest.approx(1 / 61, rel=0.01)
    assert expected(fails).error_rate == pytest.approx(16 / 76, rel=0.01)


def test_losses_apart_in_time_count_each() -> None:
    window = filled(*[200] * 20)
    for seq in range(100, 110):
        window.add(event(seq, outcome="unavailable", at=NOW - 2 * (seq - 90)))
    assert expected(window).p95_ms == 10_000


def test_the_order_of_hearing_does_not_matter_and_nothing_counts_twice() -> None:
    chance = random.Random(4)
    outcomes = ["done"] * 12 + ["cancelled", "deadline", "upstream", "incomplete", "overloaded"]
    events = [
        event(
            seq,
            chance.lognormvariate(6, 0.7) * (chance.random() < 0.9),
            NOW - 900 * chance.random(),
            outcome=chance.choice(outcomes),
            total=chance.uniform(10, 9000),
            worker=chance.choice("ab"),
        )
        for seq in range(1500)
    ]
    told = Window()
    for one in events:
        told.add(one)
    for _ in range(3):
        other = Window()
        chance.shuffle(events)
        for one in (*events, *events[:300]):
            other.add(one)
        for now in (NOW, NOW + 1.7, NOW + 300):
            assert other.latency(500, now) == told.latency(500, now)
            assert other.service_ms(500, now) == told.service_ms(500, now)


def test_what_is_heard_late_counts_at_once() -> None:
    window = filled(*[300] * 20)
    assert expected(window).p50_ms == 300
    for seq in range(100, 160):
        assert window.add(event(seq, 900, NOW - 2))
        assert not window.add(event(seq, 900, NOW - 2))
    assert expected(window).p50_ms == 900


@given(st.lists(st.tuples(st.floats(0.1, 1e7), st.floats(0, 5000)), max_size=60), st.floats(1, 1e4))
def test_quantiles_are_between_the_least_and_the_greatest(added: list[tuple[float, float]], later: float) -> None:
    window = Window(size=20)
    for seq, (ms, at) in enumerate(added):
        window.add(event(seq, ms, NOW + at))
    now = NOW + max((at for _, at in added), default=0.0) + later
    latency = expected(window, 500, now)
    values = [500, *(ms for ms, _ in added)]
    assert min(values) * (1 - 1e-6) <= latency.p50_ms <= latency.p95_ms * (1 + 1e-9)
    assert latency.p95_ms <= max(values) * (1 + 1e-6)
    assert math.isfinite(latency.p95_ms)
    assert latency.samples <= 20


@pytest.mark.parametrize(
    ("heard", "sample"),
    [
        (event(1, 300, total=9000), 300),
        (event(1, outcome="upstream", total=5), 10_000),
        (event(1, 12_000, outcome="incomplete", total=13_000), 12_000),
        (event(1, outcome="unavailable"), 10_000),
        (event(1, outcome="overloaded", total=1), None),
        (event(1, outcome="bad_request", total=1), None),
        (event(1, outcome="draining", total=1), None),
        (event(1, 250, outcome="cancelled", total=400), 250),
        (event(1, outcome="cancelled", total=400), None),
        (event(1, outcome="cancelled", total=2500), 2500),
        (event(1, outcome="deadline", total=50), None),
        (event(1, outcome="deadline", total=30_000), 30_000),
    ],
)
def test_what_an_attempt_tells_of_the_first_token(heard: Attempted, sample: float | None) -> None:
    """A caller who gave up before the P95 has proved nothing, one who waited longer has."""
    window = filled(*[1000.0] * 20)
    window.add(structs.replace(heard, seq=99))
    assert expected(window).samples == 20 + (sample is not None)
    if sample is not None:
        alone = Window(size=1)
        alone.add(heard)
        assert alone.latency(1, NOW, enough=0.5).p95_ms == sample


def test_durations_are_a_statistic_of_their_own() -> None:
    """A long answer is no late one."""
    window = Window()
    for seq in range(20):
        window.add(event(seq, 300, total=9000))
        window.add(event(100 + seq, 300, outcome="cancelled", total=60_000))
    assert window.service_ms(2000, NOW) == 9000
    assert expected(window).p95_ms == 300
