"""The open loop: every request is asked when it is due, and a stall shows in the times of all that were due in it."""

import asyncio
import time
from itertools import pairwise

from loadtest.arrivals import poisson, recorded, steady
from loadtest.open_loop import open_loop
from loadtest.sample import Sample


def test_poisson_moments_are_those_of_their_seed_and_rate() -> None:
    one, again, other = poisson(50, 20, 1), poisson(50, 20, 1), poisson(50, 20, 2)
    assert one == again != other
    assert one == sorted(one)
    assert one[0] >= 0
    assert one[-1] < 20
    assert 900 < len(one) < 1100
    gaps = [later - earlier for earlier, later in pairwise(one)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert 0.8 < spread / mean < 1.2, "gaps of a Poisson process are exponential: as wide as they are long"


def test_no_rate_is_no_request() -> None:
    assert poisson(0, 10, 1) == steady(0, 10) == recorded([]) == []


def test_recorded_moments_begin_at_zero_and_can_be_sped_up() -> None:
    assert recorded([5.0, 5.5, 8.0]) == [0.0, 0.5, 3.0]
    assert recorded([5.0, 5.5, 8.0], speed=2.0) == [0.0, 0.25, 1.5]


async def test_a_stall_is_waited_for_by_every_request_that_was_due_in_it() -> None:
    """A server that answers nobody until all have asked: a closed loop would have asked once."""
    arrivals = steady(200, 0.2)
    asked, stalled, dues, over = 0, asyncio.Event(), dict[int, float](), 0.0

    async def ask(index: int, due: float) -> Sample:
        nonlocal asked, over
        dues[index], asked = due, asked + 1
        if asked == len(arrivals):
            over = time.perf_counter()
            stalled.set()
        await stalled.wait()
        return Sample(total_ms=(time.perf_counter() - due) * 1000)

    samples = await open_loop(arrivals, ask)
    assert [sample.index for sample in samples] == list(range(len(arrivals)))
    for sample in samples:
        assert sample.total_ms >= (over - dues[sample.index]) * 1000
    assert samples[0].total_ms > 190, "who was due first has waited for all the others"


async def test_the_moments_do_not_drift_when_the_generator_is_held_up() -> None:
    """The event loop is held for longer than all requests are apart: they are late, and say by how much."""

    async def ask(index: int, due: float) -> Sample:
        if index == 0:
            time.sleep(0.1)  # noqa: ASYNC251
        return Sample(total_ms=(time.perf_counter() - due) * 1000)

    samples = await open_loop(steady(100, 0.05), ask)
    assert [round(sample.at_s, 3) for sample in samples] == [0.0, 0.01, 0.02, 0.03, 0.04]
    for sample in samples[1:]:
        assert sample.late_ms >= 100 - sample.at_s * 1000 - 1
        assert sample.total_ms >= sample.late_ms


async def test_an_error_of_the_caller_is_an_outcome_and_not_a_hole() -> None:
    async def ask(index: int, due: float) -> Sample:
        if index == 1:
            raise ValueError("secret")
        return Sample()

    told: list[Sample] = []
    samples = await open_loop([0.0, 0.001, 0.002], ask, told.append)
    assert [sample.outcome for sample in samples] == ["done", "client_ValueError", "done"]
    assert sorted(sample.index for sample in told) == [0, 1, 2]
