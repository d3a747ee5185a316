"""A burst of change events while one replica of the cache is asked: `python -m loadtest.burst --json`.

It says how long the replica lags behind, whether questions about other rows went on being hits, and how the time of a
lookup in the burst compares with that before it, and with that while the same events go to a stream that nobody reads:
the pipeline and the server need processors too, which in production are others.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from nats.aio.msg import Msg

from hasten.bench.figures import percentile
from hasten.bench.metrics import LAG, LATE_S, Metrics, above, between, total
from hasten.bus import Bus
from hasten.freshness import Freshness
from hasten.loop_lag import LoopLag
from hasten.messages.cache import CACHE_LOOKUP, CACHE_PUT, Answer, CacheHit, CacheLookup, CachePut
from hasten.messages.change import APPLIED, CHANGE, STREAM, Applied, Change
from hasten.nats_server import NatsServer, free_port
from hasten.run import run_loop
from hasten.service import Service
from loadtest.staleness.fleet import Member

PARALLEL = 2000
"""Events on their way to the stream at once."""
UNREAD = "unread.changes"
"""A subject of a stream that no service reads."""
ASKED = 200
"""Answers that no event concerns; half of them are too many for the replica's memory and come from the store."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The times are p50, p95 and p99 of lookups: with no events, with as many in a stream that nobody reads, and in the
    burst. `ratio` is the p95 of the last to that of the second, `ratio_to_quiet` to that of the first. `lag_s` is how
    long after the last acknowledgement the replica had applied everything; `misses` are by reason; of `samples`
    wake-ups of its loop `late` were more than 20 ms late. `replay_per_s` events were read in a second by a reader that
    has nothing else to do, for `replay_cpu_us` of processor time each; `replay_late_ms` is how late its loop was at
    most."""

    events: int
    tags: int
    published_s: float
    lag_s: float
    quiet_ms: tuple[float, float, float]
    unread_ms: tuple[float, float, float]
    burst_ms: tuple[float, float, float]
    ratio: float
    ratio_to_quiet: float
    asked: int
    hits: int
    misses: dict[str, int]
    samples: int
    late: int
    replay_per_s: int
    replay_cpu_us: float
    replay_late_ms: float


class Asker:
    """Asks at a steady rate for answers that stay valid, and notes how long each takes."""

    def __init__(self, bus: Bus, rate: float) -> None:
        self._bus, self._rate, self._chance = bus, rate, random.Random(7)
        self.outcomes: Counter[str] = Counter()

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
            self.outcomes["hit" if isinstance(reply, CacheHit) else getattr(reply, "reason", "failed")] += 1

        tasks = []
        while not until.is_set():
            tasks.append(asyncio.create_task(one()))
            await asyncio.sleep(self._chance.expovariate(self._rate))
        await asyncio.gather(*tasks)
        return took


async def publish(url: str, subject: str, events: int, tags: int, over_s: float) -> int:
    """Publishes the events evenly over a time, each about one of `tags` rows; for a process of its own."""
    bus = await Bus.connect(url)
    bodies = [msgspec.json.encode(Change(table="prices", key=key)) for key in range(tags)]
    stored, began = 0, time.perf_counter()

    async def acknowledged(_: Msg) -> None:
        nonlocal stored
        stored += 1

    inbox = bus.client.new_inbox()
    await bus.subscribe(inbox, acknowledged)
    sent = 0
    while stored < events:
        due = min(events, stored + PARALLEL, int((time.perf_counter() - began) / over_s * events) + 1)
        for number in range(sent, due):
            await bus.client.publish(subject, bodies[number % tags], inbox)
        sent = max(sent, due)
        await asyncio.sleep(0.001)
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
    await bus.js.add_stream(name="UNREAD", subjects=[UNREAD])
    sizes = ["--events", str(events), "--tags", str(tags), "--over", str(over_s)]
    quiet = await _for(asker, over_s)
    async with _asking(asker) as unread:
        await _publish(url, UNREAD, sizes)
    asker.outcomes, before = Counter(), await Metrics.read(http)
    async with _asking(asker) as burst:
        began = time.perf_counter()
        await _publish(url, CHANGE.subject(source="shop"), sizes)
        published = time.perf_counter()
        await applied.reached((await bus.js.stream_info(STREAM)).state.last_seq)
        lag_s = time.perf_counter() - published
    after = await Metrics.read(http)
    replay_s, cpu_s, replay_late_ms = await _replayed(url)
    await listener.drain()
    lag = between(before.buckets(LAG), after.buckets(LAG))
    return Report(
        events=events,
        tags=tags,
        published_s=round(published - began, 2),
        lag_s=round(lag_s, 3),
        quiet_ms=_percentiles(quiet),
        unread_ms=_percentiles(unread),
        burst_ms=_percentiles(burst),
        ratio=round(percentile(burst, 0.95) / percentile(unread, 0.95), 2),
        ratio_to_quiet=round(percentile(burst, 0.95) / percentile(quiet, 0.95), 2),
        asked=len(burst),
        hits=asker.outcomes.pop("hit", 0),
        misses=dict(asker.outcomes),
        samples=total(lag),
        late=above(lag, LATE_S),
        replay_per_s=round(events / replay_s),
        replay_cpu_us=round(cpu_s / events * 1e6, 1),
        replay_late_ms=round(replay_late_ms, 1),
    )


async def _publish(url: str, subject: str, sizes: list[str]) -> None:
    command = [sys.executable, "-m", "loadtest.burst", "--publish", url, "--subject", subject, *sizes]
    process = await asyncio.create_subprocess_exec(*command)
    await process.wait()


@contextlib.asynccontextmanager
async def _asking(asker: Asker) -> AsyncIterator[list[float]]:
    """Asks meanwhile; the list is full afterwards."""
    took, over = list[float](), asyncio.Event()
    asking = asyncio.create_task(asker.ask(over))
    try:
        yield took
    finally:
        over.set()
        took += await asking


async def _replayed(url: str) -> tuple[float, float, float]:
    """How long another reader takes for the whole stream, its processor time, and how late its loop was, in ms."""
    bus, lag = await Bus.connect(url), LoopLag()
    reader = Freshness(bus)
    lag.start()
    began, busy = time.perf_counter(), time.process_time()
    await reader.start()
    took, busy = time.perf_counter() - began, time.process_time() - busy
    lag.stop()
    await reader.close()
    await bus.close()
    return took, busy, max(lag.late_ms, default=0.0)


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
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.burst", description="Measures a burst of change events.", epilog=Report.__doc__
    )
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--tags", type=int, default=300, help="rows that the events are about")
    parser.add_argument("--over", type=float, default=10.0, metavar="S", help="seconds the events are spread over")
    parser.add_argument("--rate", type=float, default=100.0, help="lookups per second meanwhile")
    parser.add_argument("--publish", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--subject", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    given = parser.parse_args()
    if given.publish:
        return run_loop(publish(given.publish, given.subject, given.events, given.tags, given.over))
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
