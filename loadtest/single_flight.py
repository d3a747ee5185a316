"""Measures single-flight across orchestrator replicas: generations, followers' first chunks, a leader that is killed.

`python -m loadtest.single_flight --data .hasten` starts a NATS server and one process for each service, with the
simulator as the engine (first token after 300 ms, 50 tokens a second) and the prepared embedding model of the data
folder. `--json` prints the figures for programs.
"""

import argparse
import asyncio
import json
import math
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from nats.aio.msg import Msg

from hasten.bus import Bus
from hasten.discovery import survey
from hasten.messages.chat import CHAT, FINISHED, Chunk, Done, Finished
from hasten.messages.failure import Failure
from hasten.nats_server import NatsServer
from hasten.orchestrator.lease import BUCKET, Word
from hasten.topics import random_id
from loadtest.spread import spread
from loadtest.staleness.fleet import Member

TENANT = "loadtest"
WORDS = 60
CONFIG = """
[[models]]
name = "sim"
engine = {{ kind = "sim", slots = 8, queue = 64, sim_network_ms = 300.0, sim_decode_per_s = 50.0, sim_answer = "{}" }}
"""
OTHERS = ("embedder", "cache", "router", "compressor", "worker")


class Read(msgspec.Struct, kw_only=True):
    """What one caller saw. Times are seconds of `time.perf_counter`: of its publish and of each chunk."""

    request_id: str
    asked: float
    chunks: list[float] = []
    text: str = ""
    last: Done | Failure | None = None
    more: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    def add(self, text: str) -> None:
        """Takes in a chunk."""
        self.chunks.append(time.perf_counter())
        self.text += text
        self.more.set()

    async def begun(self, chunks: int) -> None:
        """Returns when so many chunks have come."""
        while len(self.chunks) < chunks:
            await self.more.wait()
            self.more.clear()

    @property
    def ttft_ms(self) -> float:
        """From the publish to the first chunk."""
        return (self.chunks[0] - self.asked) * 1000 if self.chunks else math.nan


class System:
    """The processes, and a client that hears who has answered what."""

    def __init__(self, server: NatsServer, bus: Bus, folder: Path) -> None:
        self._server, self.bus, self._folder = server, bus, folder
        self.answer = " ".join(f"word{at}" for at in range(WORDS))
        self._members: list[Member] = []
        self.replicas: dict[str, Member] = {}
        self.answered_by: dict[str, str] = {}
        (folder / "hasten.toml").write_text(CONFIG.format(self.answer))

    async def start(self, replicas: int) -> None:
        """Starts every service; returns when all of them hear their subjects."""
        await asyncio.gather(*(self._run(name) for name in OTHERS))
        for _ in range(replicas):
            await self.add()
        await self.bus.subscribe(FINISHED.subject(tenant=TENANT), self._on_finished)
        await self.bus.flush()

    async def add(self) -> None:
        """Starts one more orchestrator."""
        member = await self._run("orchestrator")
        (id_,) = await self._ids() - set(self.replicas)
        self.replicas[id_] = member

    async def _ids(self) -> set[str]:
        return {one.id for one in await survey(self.bus) if one.name == "orchestrator"}

    async def _run(self, service: str) -> Member:
        where = ("--config", str(self._folder / "hasten.toml"), "--data", str(self._folder))
        command = [sys.executable, "-m", f"hasten.{service}", *where]
        made = Member(service, command, {}, self._server.url, self._folder / f"{service}.log")
        self._members.append(made)
        await made.start()
        return made

    async def _on_finished(self, msg: Msg) -> None:
        event = msgspec.json.decode(msg.data, type=Finished)
        self.answered_by[event.request_id] = event.source

    async def generations(self) -> int:
        """How many generations the worker has been asked for so far."""
        (worker,) = [one for one in await survey(self.bus) if one.name == "worker"]
        return int(worker.endpoints[0]["num_requests"])

    async def leader(self) -> str:
        """The replica that leads the flight which began last."""
        found = await self.bus.js.get_last_msg(f"KV_{BUCKET}", f"$KV.{BUCKET}.>")
        return msgspec.json.decode(found.data or b"{}", type=Word).leader

    async def ask(self, question: str) -> tuple[Read, asyncio.Task[Read]]:
        """Publishes a question; the task has read its answer to the end."""
        read = Read(request_id=random_id(), asked=time.perf_counter())
        body = {"messages": [{"role": "user", "content": question}]}
        stream = await self.bus.stream(CHAT, body, tenant=TENANT, request_id=read.request_id)

        async def reading() -> Read:
            async for event in stream:
                if isinstance(event, Chunk):
                    read.add(event.text)
                elif isinstance(event, Done | Failure):
                    read.last = event
            return read

        return read, asyncio.create_task(reading())

    async def close(self) -> None:
        """Ends every process."""
        await asyncio.gather(*(member.stop() for member in self._members))


def question() -> str:
    """One that nobody has asked, and that means something else than the others."""
    return f"What does article {random_id()} of collection {random_id()} say about {random_id()}?"


async def together(system: System, asks: int, rounds: int) -> dict[str, Any]:
    """Identical requests at once: generations, and how much later than the leader's the others' first chunks came."""
    before, late, whole = await system.generations(), [], 0
    for _ in range(rounds):
        same = question()
        reads = await asyncio.gather(*[task for _, task in [await system.ask(same) for _ in range(asks)]])
        whole += sum(read.text.split() == system.answer.split() for read in reads)
        (leader,) = [read for read in reads if isinstance(read.last, Done) and read.last.cache == "miss"]
        late += [(read.chunks[0] - leader.chunks[0]) * 1000 for read in reads if read is not leader]
    made = await system.generations() - before
    return {"requests": asks * rounds, "whole": whole, "generations": made, "after_the_leaders_ms": spread(late)}


async def late(system: System, rounds: int) -> dict[str, Any]:
    """One follower for each answer, once ten chunks are there: its TTFT, apart for those at the leader's replica; and
    that of an exact hit for the same question afterwards, to compare with."""
    found: list[tuple[Read, Read]] = []
    hits: list[float] = []
    for _ in range(rounds):
        same = question()
        leader, leading = await system.ask(same)
        await leader.begun(10)
        _, following = await system.ask(same)
        found.append((await following, await leading))
        for _ in range(3):
            _, again = await system.ask(same)
            hit = await again
        hits.append(hit.ttft_ms)
    await system.bus.flush()
    where: dict[str, list[float]] = {"same_replica": [], "another_replica": [], "exact_hit": hits}
    for follower, leader in found:
        own = system.answered_by[follower.request_id] == system.answered_by[leader.request_id]
        where["same_replica" if own else "another_replica"].append(follower.ttft_ms)
    return {name: spread(values) for name, values in where.items() if values}


async def lease_wait(system: System, rounds: int) -> dict[str, float]:
    """How long generations were ready and waited for their lease."""
    waits: list[float] = []
    for _ in range(rounds):
        _, task = await system.ask(question())
        read = await task
        waits += [read.last.timings_ms["lease"]] if isinstance(read.last, Done) else []
    return spread(waits)


async def killed(system: System, rounds: int) -> dict[str, Any]:
    """A leader is killed in mid-stream: the pause of those who read at other replicas, and what they have read."""
    pauses, whole, readers = [], 0, 0
    for _ in range(rounds):
        same = question()
        first, leading = await system.ask(same)
        asked = [(await system.ask(same)) for _ in range(8)]
        await first.begun(15)
        leader = await system.leader()
        doomed = system.replicas.pop(leader)
        doomed.signal(signal.SIGKILL)
        at = time.perf_counter()
        reads = [
            read for read in await asyncio.gather(leading, *(task for _, task in asked)) if isinstance(read.last, Done)
        ]
        readers += len(reads)
        whole += sum(read.text.split() == system.answer.split() for read in reads)
        pauses += [(next(one for one in read.chunks if one > at + 0.05) - at) * 1000 for read in reads]
        await doomed.stop()
        await system.add()
    return {"readers": readers, "whole": whole, "pause_ms": spread(pauses)}


async def measure(data: Path, asks: int, replicas: int, rounds: int) -> dict[str, Any]:
    """All of it on a system of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "models").symlink_to((data / "models").resolve())
        server = await NatsServer(folder / "jetstream").start()
        bus = await Bus.connect(server.url, name="loadtest")
        system = System(server, bus, folder)
        try:
            await system.start(replicas)
            return {
                "together": await together(system, asks, rounds),
                "late_ttft_ms": await late(system, 10 * rounds),
                "lease_wait_ms": await lease_wait(system, 10 * rounds),
                "killed": await killed(system, rounds),
            }
        finally:
            await system.close()
            await bus.close()
            await server.stop(kill=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.single_flight", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(".hasten"), help="folder with the prepared models")
    parser.add_argument("--asks", type=int, default=100, help="identical requests at once")
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = asyncio.run(measure(given.data, given.asks, given.replicas, given.rounds))
    if given.json:
        print(json.dumps(found, indent=2))
        return
    for name, figures in found.items():
        print(name)
        for what, value in figures.items():
            print(f"  {what:24} {value}")


if __name__ == "__main__":
    main()
