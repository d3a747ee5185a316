"""Runs the same requests through either system: at given moments, or as fast as it answers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hasten.messages.chat import Turn
from loadtest.bus_caller import BusCaller
from loadtest.naive import Naive
from loadtest.open_loop import open_loop
from loadtest.sample import Sample
from loadtest.stages import LARGE, SMALL
from loadtest.whole_system import COLLECTION, WholeSystem
from loadtest.workload import Request

AskFor = Callable[[Request, float], Awaitable[Sample]]


def hasten_asks(system: WholeSystem, *, by_label: bool = False, **options: Any) -> AskFor:
    """Asks hasten; `options` are fields of the chat body. `by_label` names the model that the question's label asks
    for, which is what a router would do that knew it."""
    caller = BusCaller(system.hasten, system.prices, timeout_s=120.0, texts=True)

    def body(request: Request) -> dict[str, Any]:
        made = {"messages": [{"role": "user", "content": request.text}], "knowledge": [COLLECTION], **options}
        return made | ({"model": SMALL if request.question.simple else LARGE} if by_label else {})

    return lambda request, due: caller.ask(body(request), due)


def naive_asks(pipeline: Naive, prompts: dict[str, list[Turn]]) -> AskFor:
    """Asks the naive pipeline with the prompts of these texts."""
    return lambda request, due: pipeline.ask(prompts[request.text], due)


async def at_moments(ask: AskFor, asked: Sequence[Request], arrivals: Sequence[float]) -> list[Sample]:
    """Each request at its moment."""
    return await open_loop(arrivals[: len(asked)], lambda index, due: ask(asked[index], due))


async def saturated(ask: AskFor, asked: Sequence[Request], callers: int) -> list[Sample]:
    """As many callers as that ask the next question as soon as they have an answer."""
    began, samples = time.perf_counter(), [Sample() for _ in asked]
    left = iter(range(len(asked)))

    async def caller() -> None:
        for index in left:
            due = time.perf_counter()
            samples[index] = sample = await ask(asked[index], due)
            sample.index, sample.at_s = index, due - began

    await asyncio.gather(*(caller() for _ in range(callers)))
    return samples


def steady_rate(samples: Sequence[Sample]) -> float:
    """Answers per second in the middle of a saturated run: from the end of its first quarter to that of its third."""
    ends = sorted(one.at_s + one.total_ms / 1000 for one in samples if one.ok)
    first, last = len(ends) // 4, 3 * len(ends) // 4
    return (last - first) / (ends[last] - ends[first]) if last > first else 0.0
