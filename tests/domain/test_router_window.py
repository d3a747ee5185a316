"""A latency window fades by time, is safe with few samples, and counts only what tells of the model's own speed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.messages.chat import CacheSource, Finished
from hasten.router.window import Window, duration_sample, ttft_sample


def filled(*samples: float, at: float = 0.0) -> Window:
    window = Window()
    for ms in samples:
        window.add(ms, at)
    return window


def test_without_samples_the_prior_is_expected() -> None:
    assert Window().latency(500, 1000.0) == (500, 500, 0, False)


def test_one_sample_is_mixed_with_the_prior() -> None:
    latency = filled(1500).latency(500, 0.0)
    assert latency == (600, 600, 1, False)


def test_enough_samples_replace_the_prior() -> None:
    latency = filled(*range(101)).latency(5000, 0.0)
    assert latency == (50, 95, 101, True)


def test_one_outlier_among_few_is_not_the_p95() -> None:
    assert filled(*[300] * 11, 30_000).latency(300, 0.0).p95_ms == 300
    assert filled(*[300] * 11, *[30_000] * 2).latency(300, 0.0).p95_ms > 3000


def test_only_the_last_thousand_count() -> None:
    window = filled(*[9000] * 500, *[100] * 1000)
    assert window.latency(0, 0.0) == (100, 100, 1000, True)


def test_old_samples_fade_and_then_leave() -> None:
    window = filled(*[9000] * 40)
    assert window.latency(400, 0.0).p95_ms == 9000
    half_faded = window.latency(400, 500.0)
    assert not half_faded.known
    assert 400 < half_faded.p95_ms < 9000
    assert window.latency(400, 7200.0) == (400, 400, 0, False)


def test_new_samples_outweigh_old_ones() -> None:
    window = filled(*[5000] * 60)
    for _ in range(60):
        window.add(200, 540.0)
    assert window.latency(0, 540.0).p50_ms == 200


@given(st.lists(st.tuples(st.floats(0, 1e7), st.floats(0, 5000)), max_size=60), st.floats(0, 1e4))
def test_quantiles_are_between_the_least_and_the_greatest(added: list[tuple[float, float]], later: float) -> None:
    window = Window(size=20)
    for ms, at in sorted(added, key=lambda one: one[1]):
        window.add(ms, at)
    now = max((at for _, at in added), default=0.0) + later
    latency = window.latency(500, now)
    values = [500, *(ms for ms, _ in added)]
    assert min(values) - 1e-6 <= latency.p50_ms <= latency.p95_ms + 1e-6 <= max(values) * (1 + 1e-9) + 1e-5
    assert latency.samples <= 20


def finished(
    outcome: str = "done", *, cache: CacheSource = "miss", ttft: float = 0.0, total: float = 0.0, slug: str = "a"
) -> Finished:
    return Finished(
        source="o", seq=1, request_id="r", outcome=outcome, cache=cache, slug=slug, worker_ttft_ms=ttft, total_ms=total
    )


@pytest.mark.parametrize(
    ("event", "sample"),
    [
        (finished(ttft=300, total=9000), 300),
        (finished(cache="exact", ttft=3), None),
        (finished(cache="semantic", ttft=3), None),
        (finished(cache="shared", ttft=3), None),
        (finished(ttft=300, slug=""), None),
        (finished("upstream", total=5), 10_000),
        (finished("incomplete", ttft=12_000, total=13_000), 12_000),
        (finished("unavailable"), 10_000),
        (finished("overloaded", total=1), None),
        (finished("bad_request", total=1), None),
        (finished("draining", total=1), None),
        (finished("cancelled", ttft=250, total=400), 250),
        (finished("cancelled", total=400), None),
        (finished("cancelled", total=2500), 2500),
        (finished("deadline", total=50), None),
        (finished("deadline", total=30_000), 30_000),
    ],
)
def test_what_a_finished_request_tells_of_the_first_token(event: Finished, sample: float | None) -> None:
    assert ttft_sample(event, p95_ms=1000, failure_ms=10_000) == sample


def test_durations_are_a_statistic_of_their_own() -> None:
    assert duration_sample(finished(ttft=300, total=9000)) == 9000
    assert duration_sample(finished("cancelled", ttft=300, total=9000)) is None
    assert duration_sample(finished(cache="exact", total=9)) is None
