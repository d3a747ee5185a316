"""A worker that is asked for more than it can: how much of its capacity goes to answers that are in time.

`python -m loadtest.overload` starts a NATS server and one worker whose simulator is the limit, and asks at random
moments for a share of its capacity that is below, at and far above 1. Each request has a deadline. One tenant sends
nine tenths of the requests, another one the rest. `goodput` is finished answers as a share of what the slots can make,
`wasted` the share of the tokens made that belonged to answers cut off by their deadline. `--json` prints the figures
for programs.
"""

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from typing import Any

from hasten.bus import Bus
from hasten.deadline import TENANT, now_ms
from hasten.messages.chat import Chunk, Done, Turn
from hasten.messages.failure import Failure
from hasten.messages.generate import GENERATE, Generate
from hasten.topics import random_id
from loadtest.pipeline import MODEL, pipeline
from loadtest.spread import spread

SLOTS, TOKENS, PER_S, QUEUE = 4, 16, 100, 100
SERVICE_S = TOKENS / PER_S
CAPACITY = SLOTS / SERVICE_S
ENGINE = (
    f'kind = "sim", slots = {SLOTS}, queue = {QUEUE}, sim_decode_per_s = {PER_S}.0, sim_answer = "{"word " * TOKENS}"'
)
MANY, FEW = "many", "few"
SHARE = 0.9


class Tally:
    """What became of the requests of each tenant."""

    def __init__(self) -> None:
        self.ended: dict[str, Counter[str]] = {MANY: Counter(), FEW: Counter()}
        self.first_ms: dict[str, list[float]] = {MANY: [], FEW: []}
        self.refused_ms: list[float] = []
        self.useful = self.wasted = 0

    async def ask(self, bus: Bus, tenant: str, deadline_s: float) -> None:
        """One request, to its end."""
        body = Generate(messages=[Turn(role="user", content=f"question {random_id()}")])
        began, first, tokens, last = time.perf_counter(), 0.0, 0, None
        deadline_ms = now_ms() + deadline_s * 1000
        stream = await bus.stream(
            GENERATE, body, slug=MODEL, worker="w1", deadline_ms=deadline_ms, headers={TENANT: tenant}
        )
        async with stream:
            async for event in stream:
                if isinstance(event, Chunk):
                    first = first or (time.perf_counter() - began) * 1000
                    tokens += len(event.text.split())
                elif isinstance(event, Done | Failure):
                    last = event
        self._count(tenant, last, first, tokens, (time.perf_counter() - began) * 1000)

    def _count(self, tenant: str, last: Done | Failure | None, first_ms: float, tokens: int, took_ms: float) -> None:
        done = isinstance(last, Done)
        self.ended[tenant][last.code if isinstance(last, Failure) else "done"] += 1
        self.useful, self.wasted = self.useful + tokens * done, self.wasted + tokens * (not done)
        if done:
            self.first_ms[tenant].append(first_ms)
        elif isinstance(last, Failure) and last.code == "overloaded":
            self.refused_ms.append(took_ms)


async def at_load(bus: Bus, factor: float, seconds: float, deadline_s: float) -> dict[str, Any]:
    """So many times the capacity is asked for, at moments that do not depend on the answers."""
    chance, tally, asked = random.Random(7), Tally(), list[asyncio.Task[None]]()
    began = at = time.perf_counter()
    while at < began + seconds:
        at += chance.expovariate(factor * CAPACITY)
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        tenant = MANY if chance.random() < SHARE else FEW
        asked.append(asyncio.create_task(tally.ask(bus, tenant, deadline_s)))
    await asyncio.gather(*asked)
    took = time.perf_counter() - began
    done = sum(ended["done"] for ended in tally.ended.values())
    return {
        "asked_of_capacity": factor,
        "goodput": round(done / took / CAPACITY, 3),
        "wasted": round(tally.wasted / max(1, tally.useful + tally.wasted), 3),
        "refused_after_ms": spread(tally.refused_ms),
        "ended": {name: dict(ended) for name, ended in tally.ended.items()},
        "first_token_ms": {name: spread(times) for name, times in tally.first_ms.items()},
    }


async def measure(factors: list[float], seconds: float, deadline_s: float) -> list[dict[str, Any]]:
    """The figures of each load, one after the other at the same worker."""
    async with pipeline(ENGINE) as system:
        await system.add_worker("w1")
        return [await at_load(system.bus, factor, seconds, deadline_s) for factor in factors]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.overload", description=__doc__)
    parser.add_argument("--factors", type=float, nargs="+", default=[0.7, 1.0, 2.0, 5.0], help="of the capacity")
    parser.add_argument("--seconds", type=float, default=8.0, help="for each factor")
    parser.add_argument("--deadline-s", type=float, default=0.8, help="five times what an answer takes")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = asyncio.run(measure(given.factors, given.seconds, given.deadline_s))
    if given.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{SLOTS} slots of {SERVICE_S * 1000:g} ms an answer: {CAPACITY:g} a second")
    for figures in found:
        print()
        for what, value in figures.items():
            print(f"  {what:18} {value}")


if __name__ == "__main__":
    main()
