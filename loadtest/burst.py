"""A burst of change events while one replica of the cache is asked: `python -m loadtest.burst --json`.

It says how long the replica lags behind, whether questions about other rows went on being hits, and how the time of a
lookup in the burst compares with that before it, in the same run.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from hasten.bench import loop
from hasten.bench.figures import percentile
from hasten.bus import Bus
from hasten.messages.cache import CACHE_LOOKUP, CACHE_PUT, Answer, CacheHit, CacheLookup, CachePut
from hasten.messages.change import APPLIED, CHANGE, STREAM, Applied, Change
from hasten.nats_server import NatsServer, free_port
from hasten.run import run_loop
from hasten.service import Service
from loadtest.staleness.fleet import Member

PARALLEL = 1000
"""Events on their way to the stream at once."""
ASKED = 200
"""Answers that no event concerns; half of them are too many for the replica's memory and come from the store."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`quiet_ms` and `burst_ms` are p50, p95 and p99 of lookups; `ratio` is that of the p95. `lag_s` is how long after
    the last acknowledgement the replica had applied everything; `late` of `samples` wake-ups of its loop were late."""

    events: int
    tags: int
    published_s: float
    lag_s: float
    quiet_ms: tuple[float, float, float]
    burst_ms: tuple[float, float, float]
    ratio: float
    asked: int
    hits: int
    samples: int
    late: int


class Asker:
    """Asks at a steady rate for answers that stay valid, and notes how long each takes."""

    def __init__(self, bus: Bus, rate: float) -> None:
        self._bus, self._rate, self._chance = bus, rate, random.Random(7)
        self.hits = 0

    async def fill(self) -> None:
        """Stores the answers."""
        for number in range(ASKED):
            body = CachePut(key=f"k{number}", answer=Answer(text="x" * 400), tags=[f"other:{number}"])
            await self._bus.request(CACHE_PUT, body, tenant="burst")

    async def ask(self, until: asyncio.Event) -> list[float]:
        """The time of each lookup, in ms: they are sent when they are due, whatever became of the ones before."""
        took: list[float] = []

        async def one() -> None:
            began = time.perf_counter()
            lookup = CacheLookup(key=f"k{self._chance.randrange(ASKED)}")
            reply = await self._bus.request(CACHE_LOOKUP, lookup, tenant="burst")
            took.append((time.perf_counter() - began) * 1000)
            self.hits += isinstance(reply, CacheHit)

        tasks = []
        while not until.is_set():
            tasks.append(asyncio.create_task(one()))
            await asyncio.sleep(self._chance.expovariate(self._rate))
        await asyncio.gather(*tasks)
        return took


async def publish(url: str, events: int, tags: int, over_s: float) -> int:
    """Publishes the events evenly over a time, each about one of `tags` rows; for a process of its own."""
    bus = await Bus.connect(url)
    places = asyncio.Semaphore(PARALLEL)
    began = time.perf_counter()

    async def one(number: int) -> None:
        async with places:
            await bus.store(CHANGE, Change(table="prices", key=number % tags), source="shop")

    tasks: list[asyncio.Task[None]] = []
    while len(tasks) < events:
        due = min(events, int((time.perf_counter() - began) / over_s * events) + 1)
        tasks += [asyncio.create_task(one(number)) for number in range(len(tasks), due)]
        await asyncio.sleep(0.001)
    await asyncio.gather(*tasks)
    await bus.close()
    return 0


async def measure(events: int, tags: int, over_s: float, rate: float, folder: Path) -> Report:
    """The whole run, on a server and a replica of its own."""
    server = await NatsServer(folder / "jetstream").start()
    port = free_port()
    command = [sys.executable, "-m", "hasten.cache", "--data", str(folder), "--metrics", f"127.0.0.1:{port}"]
    settings = {"HASTEN_CACHE_DIM": "16", "HASTEN_CACHE_HOT_ENTRIES": str(ASKED // 2)}
    replica = Member("cache", command, settings, server.url, folder / "cache.log")
    bus = await Bus.connect(server.url)
    try:
        await replica.start()
        return await _measured(events, tags, over_s, rate, bus, server.url, f"http://127.0.0.1:{port}")
    finally:
        await bus.close()
        await replica.stop(kill=False)
        await server.stop(kill=True)


async def _measured(events: int, tags: int, over_s: float, rate: float, bus: Bus, url: str, http: str) -> Report:
    asker, applied = Asker(bus, rate), _Applied()
    await asker.fill()
    listener = Service(bus, "burst", "Hears how far the replica is.")
    listener.listen(APPLIED, applied.hear)
    await listener.start()
    quiet = await _for(asker, over_s)
    asker.hits, before = 0, await loop.samples(http)
    command = [sys.executable, "-m", "loadtest.burst", "--publish", url]
    sizes = ["--events", str(events), "--tags", str(tags), "--over", str(over_s)]
    over, began = asyncio.Event(), time.perf_counter()
    asking = asyncio.create_task(asker.ask(over))
    publisher = await asyncio.create_subprocess_exec(*command, *sizes)
    await publisher.wait()
    published = time.perf_counter()
    last = (await bus.js.stream_info(STREAM)).state.last_seq
    await applied.reached(last)
    lag_s = time.perf_counter() - published
    over.set()
    burst, after = await asking, await loop.samples(http)
    await listener.drain()
    counted = (after[0] - before[0], after[1] - before[1]) if before and after else (0, 0)
    return Report(
        events=events,
        tags=tags,
        published_s=round(published - began, 2),
        lag_s=round(lag_s, 3),
        quiet_ms=_percentiles(quiet),
        burst_ms=_percentiles(burst),
        ratio=round(percentile(burst, 0.95) / percentile(quiet, 0.95), 2),
        asked=len(burst),
        hits=asker.hits,
        samples=counted[0],
        late=counted[1],
    )


async def _for(asker: Asker, seconds: float) -> list[float]:
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    return await asker.ask(over)


def _percentiles(took: list[float]) -> tuple[float, float, float]:
    p50, p95, p99 = (round(percentile(took, share), 2) for share in (0.5, 0.95, 0.99))
    return p50, p95, p99


class _Applied:
    """How far the replica says it is."""

    def __init__(self) -> None:
        self.sequence, self._news = 0, asyncio.Event()

    def hear(self, applied: Applied, _: dict[str, str]) -> None:
        self.sequence = max(self.sequence, applied.sequence)
        self._news.set()

    async def reached(self, sequence: int) -> None:
        while self.sequence < sequence:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), 1)


def main() -> int:
    """Measures, or with `--publish` plays the pipeline."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.burst", description="Measures a burst of change events.")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--tags", type=int, default=300, help="rows that the events are about")
    parser.add_argument("--over", type=float, default=10.0, metavar="S", help="seconds the events are spread over")
    parser.add_argument("--rate", type=float, default=100.0, help="lookups per second meanwhile")
    parser.add_argument("--publish", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    given = parser.parse_args()
    if given.publish:
        return run_loop(publish(given.publish, given.events, given.tags, given.over))
    found: list[Report] = []

    async def work() -> int:
        with tempfile.TemporaryDirectory() as folder:
            found.append(await measure(given.events, given.tags, given.over, given.rate, Path(folder)))
        return 0

    code = run_loop(work())
    for report in found:
        plain = msgspec.to_builtins(report)
        print(msgspec.json.encode(report).decode() if given.json else "\n".join(f"{k}: {v}" for k, v in plain.items()))
    return code


if __name__ == "__main__":
    sys.exit(main())
