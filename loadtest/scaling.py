"""Workers one by one: throughput of 1, 2 and 4, and workers that join and leave under load without a failed request.

`python -m loadtest.scaling` starts a NATS server, a router, a compressor, an orchestrator and the workers, each as a
process of its own. Callers ask again as soon as they have an answer, more of them than there are slots. The simulator's
time is set so that it is the limit and not this machine's processors: `busy` says how much of these the processes took.
`--json` prints the figures for programs.
"""

import argparse
import asyncio
import json
import time
from typing import Any

import msgspec
import psutil

from hasten.bus import Bus
from hasten.messages.chat import CHAT, Done
from hasten.topics import random_id
from loadtest.pipeline import MODEL, Pipeline, cores, pipeline

TENANT = "loadtest"
SLOTS, TOKENS, PER_S = 4, 16, 20
"""A worker answers at most SLOTS * PER_S / TOKENS requests a second, here 5: far less than a core could."""
ENGINE = f'kind = "sim", slots = {SLOTS}, queue = 64, sim_decode_per_s = {PER_S}.0, sim_answer = "{"word " * TOKENS}"'
CAPACITY = SLOTS * PER_S / TOKENS


class Callers(msgspec.Struct):
    """What callers got who ask again and again until they are told to stop."""

    done: int = 0
    failed: dict[str, int] = {}
    stopped: bool = False

    async def ask(self, bus: Bus) -> None:
        """One caller."""
        while not self.stopped:
            asked = [{"role": "user", "content": f"question {random_id()}"}]
            body = {"messages": asked, "model": MODEL, "cache": {"mode": "off"}}
            last: Any = None
            async with await bus.stream(CHAT, body, tenant=TENANT) as stream:
                async for event in stream:
                    last = event
            if isinstance(last, Done):
                self.done += 1
            else:
                self.failed[last.code] = self.failed.get(last.code, 0) + 1


async def throughput(system: Pipeline, workers: int, seconds: float) -> dict[str, Any]:
    """Answers a second of so many workers, counted after a second of warming up."""
    callers = Callers()
    asking = [asyncio.ensure_future(callers.ask(system.bus)) for _ in range(round(1.5 * SLOTS * workers))]
    await asyncio.sleep(1.0 + TOKENS / PER_S)
    processes = [psutil.Process(member.pid) for member in system.members.values()]
    before, since, used = callers.done, time.monotonic(), _used(processes)
    await asyncio.sleep(seconds)
    took = time.monotonic() - since
    rate, busy = (callers.done - before) / took, (_used(processes) - used) / took / cores()
    callers.stopped = True
    await asyncio.gather(*asking)
    return {
        "workers": workers,
        "answers_per_s": round(rate, 2),
        "of_capacity": round(rate / (CAPACITY * workers), 3),
        "busy": round(busy, 2),
        "failed": callers.failed,
    }


def _used(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(one.user + one.system for one in times)


async def changing(system: Pipeline, rounds: int) -> dict[str, Any]:
    """A worker joins and, once it is asked, the oldest leaves, again and again under load: no request may fail."""
    callers, names = Callers(), sorted(name for name in system.members if name.startswith("w"))
    asking = [asyncio.ensure_future(callers.ask(system.bus)) for _ in range(SLOTS * len(names))]
    answered: dict[str, int] = {}
    for at in range(rounds):
        names.append(f"w{10 + at}")
        await system.add_worker(names[-1])
        while not answered.get(names[-1]):
            answered |= await system.generations()
        await system.leave(names.pop(0))
    answered |= await system.generations()
    callers.stopped = True
    await asyncio.gather(*asking)
    return {"joined_and_left": rounds, "done": callers.done, "failed": callers.failed, "asked_of": answered}


async def measure(seconds: float, rounds: int) -> dict[str, Any]:
    """All of it on one system."""
    async with pipeline(ENGINE) as system:
        steps, there = [], 0
        for workers in (1, 2, 4):
            while there < workers:
                there += 1
                await system.add_worker(f"w{there}")
            steps.append(await throughput(system, workers, seconds))
        first = steps[0]["answers_per_s"]
        for step in steps:
            step["speedup"] = round(step["answers_per_s"] / first, 2)
        return {"cores": cores(), "throughput": steps, "changing": await changing(system, rounds)}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.scaling", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each number of workers")
    parser.add_argument("--rounds", type=int, default=6, help="workers that join and leave")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = asyncio.run(measure(given.seconds, given.rounds))
    if given.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{found['cores']} cores; an engine of {CAPACITY:g} answers a second for each worker")
    for step in found["throughput"]:
        print(" ", step)
    print("joining and leaving:", found["changing"])


if __name__ == "__main__":
    main()
