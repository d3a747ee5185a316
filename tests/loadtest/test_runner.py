"""A point of the curve at which the generator was late is tried again, and in the end does not count."""

import time
from collections.abc import Mapping
from typing import Any

from loadtest.processor import Meter
from loadtest.runner import TRIES, Runner
from loadtest.sample import Sample
from loadtest.scenario import Bound, read


async def asked_at(late_ms: float) -> tuple[int, bool]:
    """How many loads were asked by a generator that holds itself up for 30 ms, and whether the bound counts as held."""
    scenario = read({"about": "Simulated", "late_ms": late_ms, "arrivals": {"kind": "steady", "rate": 100}})
    words: set[str] = set()
    firsts = 0

    async def ask(body: Mapping[str, Any], due: float) -> Sample:
        nonlocal firsts
        words.add(body["messages"][0]["content"])
        if len(words) % 10 == 1:
            firsts += 1
            time.sleep(0.03)  # noqa: ASYNC251
        return Sample(cache="miss", ttft_ms=1.0, total_ms=1.0)

    runner = Runner(scenario, ask, None, Meter({}), None, 1)
    point = await runner.at(1.0, Bound(ttft_ms=1000, seconds=0.1))
    assert point.within == 1.0
    return firsts, point.held


async def test_a_late_generator_is_tried_again_and_does_not_count() -> None:
    assert await asked_at(late_ms=5) == (TRIES, False)


async def test_one_in_time_is_believed_at_once() -> None:
    assert await asked_at(late_ms=600_000) == (1, True)
