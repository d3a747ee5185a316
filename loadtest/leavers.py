"""Asks a thousand times and leaves at a random moment, then counts what the services still hold: it should be nothing.

`python -m loadtest.leavers --times 1000` starts a NATS server and one process for each service. A caller leaves its
loop, cancels its task, lets its deadline pass, loses its connection without a word, or hangs up on the HTTP edge with a
streamed or a whole answer to come. Afterwards it is measured how long a worker goes on for a caller that has left.
`--json` prints the figures for programs.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from hasten import keys
from hasten.bus import Bus
from hasten.client import Hasten
from hasten.discovery import Running
from hasten.messages.chat import Chunk
from hasten.messages.failure import Failed
from hasten.messages.retrieve import Document
from hasten.nats_server import free_port
from loadtest.crew import TENANT, Crew, crew, ready
from loadtest.spread import spread

AT_ONCE = 24
LONGEST_S = 1.5
QUIET_S = 20.0
RUNS = 5
"""Short runs of each way to leave, in turn, of which the median is told: a machine is not equally busy all the time."""
HELD = ("active", "flights", "seats", "generating", "queued", "chats", "connections", "outstanding")
PROCESS = ("tasks", "subscriptions")
SIM = 'kind = "sim", slots = 6, queue = 64, sim_network_ms = 50.0, sim_decode_per_s = 40.0'
LLAMA = 'kind = "llama", path = "smollm2-135m-instruct-q8_0.gguf", slots = 2, threads = 1'
CONFIG = """
[gateway]
http = "127.0.0.1:{port}"
[[models]]
name = "m"
engine = {{ {engine} }}
"""
SERVICES = (
    "embedder",
    "cache",
    "retriever",
    "compressor",
    "router",
    "router",
    "orchestrator",
    "orchestrator",
    "gateway",
)
BARE = ("compressor", "router", "orchestrator", "gateway")


class Rig(msgspec.Struct, kw_only=True):
    """The system, a tenant's client and how to reach the HTTP edge. `knowledge` is what questions are asked of."""

    system: Crew
    hasten: Hasten
    port: int
    key: str
    knowledge: list[str]

    def body(self, number: int) -> dict[str, Any]:
        """A question of which every third was asked before, and some are not cached at all."""
        words = " ".join(f"w{(number // 3) * 31 + at}" for at in range(40))
        options = {"cache": {"mode": "off"}} if number % 2 else {"knowledge": self.knowledge}
        return {"messages": [{"role": "user", "content": f"What is said of {words}?"}], **options}

    async def post(self, body: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the edge that has asked, and has read nothing yet."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        content = json.dumps(body).encode()
        head = f"Host: x\r\nAuthorization: Bearer {self.key}\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\n" + head + content)
        return reader, writer


async def closes(rig: Rig, number: int, after_s: float) -> None:
    """Leaves the loop."""
    until = time.monotonic() + after_s
    events = rig.hasten.chat(rig.body(number))
    with contextlib.suppress(TimeoutError, StopAsyncIteration):
        while True:
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                await anext(events)
    await events.aclose()  # type: ignore[attr-defined]


async def cancels(rig: Rig, number: int, after_s: float) -> None:
    """Cancels its task, in the same breath if the moment is 0."""
    with contextlib.suppress(TimeoutError, Failed):
        async with asyncio.timeout(after_s):
            await rig.hasten.ask(rig.body(number))


async def is_late(rig: Rig, number: int, after_s: float) -> None:
    """Has no time for the whole answer."""
    with contextlib.suppress(Failed):
        await rig.hasten.ask(rig.body(number), timeout_s=after_s)


async def vanishes(rig: Rig, number: int, after_s: float) -> None:
    """Loses its connection and does not come back."""
    bus = await Bus.connect(rig.system.server.url, inbox=f"_INBOX.{TENANT}")
    asking = asyncio.ensure_future(Hasten(bus, TENANT).ask(rig.body(number)))
    await asyncio.wait([asking], timeout=after_s)
    await bus._client.abandon()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


def hangs_up(stream: bool) -> "Leave":
    """Ends its TCP connection to the gateway."""

    async def leave(rig: Rig, number: int, after_s: float) -> None:
        reader, writer = await rig.post(rig.body(number) | {"stream": stream})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(after_s):
                while await reader.read(65536):
                    pass
        writer.close()

    return leave


Leave = Callable[[Rig, int, float], Awaitable[None]]
LEAVERS: dict[str, Leave] = {
    "leaves the loop": closes,
    "cancels its task": cancels,
    "deadline passes": is_late,
    "connection lost": vanishes,
    "hangs up a stream": hangs_up(True),
    "hangs up a whole answer": hangs_up(False),
}


def held(services: list[Running]) -> dict[str, dict[str, int]]:
    """What each process holds, by its service and id."""
    return {
        f"{one.name} {one.id[:6]}": {
            name: int(one.report[name]) for name in (*HELD, *PROCESS) if isinstance(one.report.get(name), int)
        }
        for one in services
    }


async def left(rig: Rig, before: dict[str, dict[str, int]], quiet_s: float) -> dict[str, dict[str, int]]:
    """What each process holds more than before, once that is nothing or `quiet_s` have passed."""
    until = time.monotonic() + quiet_s
    while True:
        now = held(await rig.system.services())
        more = {
            who: {name: value - before[who].get(name, 0) for name, value in facts.items() if value > before[who][name]}
            for who, facts in now.items()
        }
        if not any(more.values()) or time.monotonic() > until:
            return more
        await asyncio.sleep(0.3)


async def churn(rig: Rig, times: int, seed: int) -> dict[str, int]:
    """So many callers that leave at a random moment; how many left in which way."""
    rng, gate, counts = random.Random(seed), asyncio.Semaphore(AT_ONCE), dict.fromkeys(LEAVERS, 0)

    async def one(number: int, how: str, after_s: float) -> None:
        async with gate:
            await LEAVERS[how](rig, number, after_s)
            counts[how] += 1

    moments = [
        rng.choice((0.0, rng.uniform(0, LONGEST_S))) if number % 8 == 0 else rng.uniform(0, LONGEST_S)
        for number in range(times)
    ]
    await asyncio.gather(*(one(number, rng.choice(list(LEAVERS)), at) for number, at in enumerate(moments)))
    return counts


async def stops(rig: Rig, times: int, how: str) -> dict[str, float]:
    """How many milliseconds after a caller has left the worker has nothing to do any more."""
    bus, found = rig.system.bus, []
    (worker,) = [one for one in await rig.system.services() if one.name == "worker"][:1]
    for number in range(times):
        body = {**rig.body(number), "cache": {"mode": "off"}, "max_tokens": 400}
        began = asyncio.Event()
        asking = asyncio.create_task(_by_http(rig, body, began) if how == "HTTP" else _by_nats(rig, body, began))
        await began.wait()
        await asyncio.sleep(0.05)
        at = time.perf_counter()
        asking.cancel()
        while True:
            answer = await bus.client.request(f"$SRV.STATS.worker.{worker.id}", b"", timeout=5)
            if not msgspec.json.decode(answer.data, type=Running).report["generating"]:
                break
        found.append((time.perf_counter() - at) * 1000)
        await asyncio.gather(asking, return_exceptions=True)
    return spread(found)


async def stopping(rig: Rig, times: int) -> dict[str, dict[str, float]]:
    """The medians of several runs of each way, with the processors' load (1 minute) meanwhile."""
    runs: dict[str, list[dict[str, float]]] = {"NATS": [], "HTTP": []}
    for _ in range(RUNS):
        for how, some in runs.items():
            some.append(await stops(rig, times, how) | {"load": round(os.getloadavg()[0], 1)})
    return {how: {name: statistics.median(one[name] for one in some) for name in some[0]} for how, some in runs.items()}


async def _by_nats(rig: Rig, body: dict[str, Any], began: asyncio.Event) -> None:
    async for event in rig.hasten.chat(body):
        if isinstance(event, Chunk):
            began.set()


async def _by_http(rig: Rig, body: dict[str, Any], began: asyncio.Event) -> None:
    reader, writer = await rig.post(body | {"stream": True})
    try:
        while part := await reader.read(65536):
            if b'"content"' in part:
                began.set()
    finally:
        writer.close()


async def measure(engine: str, times: int, seed: int, models: Path | None) -> dict[str, Any]:
    """The churn and what it leaves, then how quickly a generation stops."""
    port = free_port()
    config = CONFIG.format(port=port, engine=SIM if engine == "sim" else LLAMA)
    async with crew(config, models) as system:
        for service in SERVICES if models is not None else BARE:
            await system.add(service)
        await system.add("worker", "w0")
        key = await keys.create(system.bus, TENANT)
        async with Hasten.connect(system.server.url, tenant=TENANT) as hasten:
            await ready(hasten, 1)
            knowledge = ["help"] if models is not None else []
            if knowledge:
                await hasten.ingest("help", Document(id="tides", text="The tide rises twice a day."))
            rig = Rig(system=system, hasten=hasten, port=port, key=key, knowledge=knowledge)
            await churn(rig, len(LEAVERS) * 2, seed + 1)
            await asyncio.sleep(5)
            before = held(await system.services())
            counts = await churn(rig, times, seed)
            found = {"left_by": counts, "held_before": before, "held_more": await left(rig, before, QUIET_S)}
            own = {"outstanding": hasten.bus.outstanding, "subscriptions": hasten.bus.subscriptions}
            return {**found, "client": own, "worker_stops_after_ms": await stopping(rig, max(5, times // 80))}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.leavers", description=__doc__)
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("sim", "llama"), default="sim")
    parser.add_argument("--data", type=Path, default=Path(".hasten"), help="folder with the prepared models")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    models = (given.data / "models").resolve()
    there = models if models.exists() else None
    if there is None:
        left_out = f"without embedder, cache and retriever: no models in {given.data} (hasten models fetch makes them)"
        print(left_out, file=sys.stderr)
    found = asyncio.run(measure(given.engine, given.times, given.seed, there))
    if given.json:
        print(json.dumps(found, indent=2))
        return
    for name, figures in found.items():
        print(name)
        for what, value in figures.items():
            print(f"  {what:24} {value or 'nothing'}")


if __name__ == "__main__":
    main()
