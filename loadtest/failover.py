"""Loses workers and orchestrators at random moments under streams, and says what their readers saw.

`python -m loadtest.failover` starts a NATS server and one process for each service. In every round six streams run, and
at a random moment one process is lost: killed (SIGKILL), hung (SIGSTOP), dropped (its TCP connection ends) or unplugged
(its packets no longer arrive). The texts are compared with those of the same questions when nothing is lost. `--engine
llama` does the same with the embedded engine of `--data` (one slot, greedy). `--json` prints the figures for programs.
"""

import argparse
import asyncio
import json
import random
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from hasten.bus import Bus
from hasten.chat_stream import ChatStream
from hasten.client import Hasten
from hasten.deadline import now_ms
from hasten.messages.chat import Chunk, Done, Note
from hasten.messages.failure import Failure
from loadtest.crew import TENANT, Crew, Hand, crew, ready
from loadtest.spread import spread

STREAMS = 6
QUESTIONS = 12
SIM = """
[[models]]
name = "m"
engine = { kind = "sim", slots = 16, sim_network_ms = 50.0, sim_decode_per_s = 25.0 }
"""
LLAMA = """
[[models]]
name = "m"
engine = { kind = "llama", path = "smollm2-135m-instruct-q8_0.gguf", slots = 1, threads = 1 }
tokenizer = "smollm2"
defaults = { temperature = 0.0 }
"""
NOUNS = ("tide", "moon", "harbour", "lantern", "river", "stone", "bread", "winter", "ladder", "violin", "bridge")
OUTAGE_S = 5.0


class Read(msgspec.Struct, kw_only=True):
    """What one reader saw: when (seconds of `time.perf_counter`) each chunk came, and who was said to generate."""

    seqs: list[int] = []
    times: list[float] = []
    text: str = ""
    worker: str = ""
    replica: str = ""
    last: Done | Failure | None = None
    resumed: int = 0

    def pause_ms(self, at: float) -> float | None:
        """From a moment to the next chunk, if there was one."""
        return next(((one - at) * 1000 for one in self.times if one > at), None)


def question(number: int, words: int) -> str:
    """One of the questions; its answer is long enough to be interrupted."""
    drawn = random.Random(number).choices(NOUNS, k=words)
    return f"Tell a story about a {', a '.join(drawn)}."


async def read(bus: Bus, number: int, options: dict[str, Any], into: Read) -> Read:
    """Asks a question and reads its answer as the client library does."""
    body = {"messages": [{"role": "user", "content": question(number, 8)}], "cache": {"mode": "off"}, **options}
    stream = ChatStream(bus, TENANT, body, deadline_ms=now_ms() + 120_000)
    async with await stream.open():
        async for event in stream:
            if isinstance(event, Chunk):
                into.seqs.append(event.seq)
                into.times.append(time.perf_counter())
                into.text += event.text
            elif isinstance(event, Note) and event.kind == "route":
                into.worker = event.data["worker"]
            elif isinstance(event, Done | Failure):
                into.last = event
    into.resumed = stream.resumed
    return into


Fault = Callable[[Crew, Hand], Awaitable[None]]


async def _kill(_: Crew, hand: Hand) -> None:
    hand.member.signal(signal.SIGKILL)


async def _hang(_: Crew, hand: Hand) -> None:
    hand.member.signal(signal.SIGSTOP)


async def _drop(_: Crew, hand: Hand) -> None:
    hand.cable.drop()


async def _unplug(_: Crew, hand: Hand) -> None:
    hand.cable.cut.clear()


async def _restart(system: Crew, _: Hand) -> None:
    await system.server.stop(kill=True)
    await asyncio.sleep(OUTAGE_S)
    await system.server.start()


FAULTS: dict[str, tuple[str, Fault]] = {
    "worker killed": ("worker", _kill),
    "worker hung": ("worker", _hang),
    "worker dropped": ("worker", _drop),
    "worker unplugged": ("worker", _unplug),
    "orchestrator killed": ("orchestrator", _kill),
    "orchestrator hung": ("orchestrator", _hang),
    "NATS away for 5 s": ("nats", _restart),
}


class Tally(msgspec.Struct, kw_only=True):
    """What became of the streams under one fault. `struck` had the lost process at work; the pause is theirs, from the
    fault to the next chunk."""

    requests: int = 0
    struck: int = 0
    continued: int = 0
    identical: int = 0
    failed: int = 0
    codes: dict[str, int] = {}
    gaps: int = 0
    duplicates: int = 0
    bystanders_failed: int = 0
    pauses: list[float] = []

    def add(self, seen: Read, expected: str, at: float, struck: bool) -> None:
        """Counts one stream."""
        self.requests += 1
        self.gaps += len(set(range(len(seen.seqs))) - set(seen.seqs))
        self.duplicates += len(seen.seqs) - len(set(seen.seqs))
        whole = isinstance(seen.last, Done)
        if not struck:
            self.bystanders_failed += not whole or seen.text != expected
            return
        self.struck += 1
        self.continued += whole
        self.identical += whole and seen.text == expected
        self.failed += not whole
        if isinstance(seen.last, Failure):
            self.codes[seen.last.code] = self.codes.get(seen.last.code, 0) + 1
        if (pause := seen.pause_ms(at)) is not None:
            self.pauses.append(pause)

    def figures(self) -> dict[str, Any]:
        """The counts and the pauses."""
        counts = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("pauses", "codes")}
        return {**counts, **({"codes": self.codes} if self.codes else {}), "pause_ms": spread(self.pauses)}


class Drill:
    """Rounds of one system. `expected` are the texts when nothing is lost."""

    def __init__(self, system: Crew, hasten: Hasten, workers: int, options: dict[str, Any], rng: random.Random) -> None:
        self._system, self._hasten, self._workers, self._options, self._rng = system, hasten, workers, options, rng
        self._expected: list[str] = []
        self._lasts_s = 0.0

    async def rehearse(self, at_once: int) -> None:
        """Reads every answer undisturbed."""
        for start in range(0, QUESTIONS, at_once):
            began = time.perf_counter()
            some = [self._ask(number, Read()) for number in range(start, min(start + at_once, QUESTIONS))]
            self._expected += [seen.text for seen in await asyncio.gather(*some)]
            self._lasts_s = max(self._lasts_s, time.perf_counter() - began)

    async def _ask(self, number: int, into: Read) -> Read:
        return await read(self._hasten.bus, number, self._options, into)

    async def round(self, kind: str, streams: int, tally: Tally) -> None:
        """Streams under one fault."""
        service, fault = FAULTS[kind]
        numbers = [self._rng.randrange(QUESTIONS) for _ in range(streams)]
        reads = [Read() for _ in numbers]
        tasks = [asyncio.create_task(self._ask(number, seen)) for number, seen in zip(numbers, reads, strict=True)]
        await asyncio.sleep(self._rng.uniform(0.05, 0.7) * self._lasts_s)
        lost = self._rng.choice(self._system.hands.get(service) or self._system.hands["worker"])
        struck = [self._strikes(service, lost, seen) for seen in reads]
        at = time.perf_counter()
        await fault(self._system, lost)
        await asyncio.gather(*tasks)
        for number, seen, hit in zip(numbers, reads, struck, strict=True):
            hit = hit or (service == "orchestrator" and seen.resumed > 0)
            tally.add(seen, self._expected[number], at, hit)
        await self._mend(kind, lost)

    def _strikes(self, service: str, lost: Hand, seen: Read) -> bool:
        if seen.last is not None or service == "orchestrator":
            return False
        return service == "nats" or seen.worker == lost.name

    async def _mend(self, kind: str, lost: Hand) -> None:
        if kind.endswith("killed"):
            await self._system.again(lost)
        elif kind.endswith("hung"):
            lost.member.signal(signal.SIGCONT)
        lost.cable.cut.set()
        await ready(self._hasten, self._workers)


async def measure(engine: str, rounds: int, seed: int, data: Path, kinds: list[str]) -> dict[str, Any]:
    """All faults on a system of its own."""
    config, workers, streams = (SIM, 3, STREAMS) if engine == "sim" else (LLAMA, 2, 2)
    options = {} if engine == "sim" else {"max_tokens": 40}
    found: dict[str, Any] = {}
    async with crew(config, data / "models" if engine != "sim" else None) as system:
        names = [("worker", f"w{number}") for number in range(workers)]
        rest = [("router", ""), ("compressor", ""), ("orchestrator", ""), ("orchestrator", "")]
        for service, name in [*rest, *names]:
            await system.add(service, name)
        async with Hasten.connect(system.server.url, tenant=TENANT) as hasten:
            await ready(hasten, workers)
            drill = Drill(system, hasten, workers, options, random.Random(seed))
            await drill.rehearse(streams if engine == "sim" else 1)
            for kind in kinds:
                tally = Tally()
                for _ in range(rounds):
                    await drill.round(kind, streams, tally)
                found[kind] = tally.figures()
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.failover", description=__doc__)
    parser.add_argument("--engine", choices=("sim", "llama"), default="sim")
    parser.add_argument("--rounds", type=int, default=10, help="losses of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(FAULTS), action="append", help="this kind of loss (repeat for more)")
    parser.add_argument("--data", type=Path, default=Path(".hasten"), help="folder with the prepared models")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.engine == "llama" and not (given.data / "models").exists():
        parser.exit(message=f"skipped: no models in {given.data} (hasten models fetch makes them)\n")
    data = given.data.resolve()
    found = asyncio.run(measure(given.engine, given.rounds, given.seed, data, given.only or list(FAULTS)))
    if given.json:
        print(json.dumps(found, indent=2))
        return
    for kind, figures in found.items():
        print(kind)
        for what, value in figures.items():
            print(f"  {what:20} {value}")


if __name__ == "__main__":
    main()
