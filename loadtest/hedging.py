"""Measures hedging on engines with a heavy tail: first-token times with and without it, and what it costs in calls.

`python -m loadtest.hedging` starts two systems beside each other, one without hedging and one with it: a NATS server, a
router, an orchestrator, a compressor and simulated workers, which draw alike in both, each as a process. Both are asked
at the same moments, which do not depend on the answers. `--json` prints the figures for programs.

Tails: with `stalls` (the default) first tokens take about 150 ms, and 2% of them come 2.5 s late or more, by a Pareto
law of shape 1.5; with `pareto` 10% come 150 ms late or more, of shape 1; with `lognormal` none stalls, but all vary by
a factor of e. `--share 0.05` and more hedge at the P95.

`--virtual` decides over draws of 40,000 calls in place of processes: what the rule is worth without a machine's noise.
"""

import argparse
import asyncio
import json
import math
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from hasten.bench.figures import percentile
from hasten.bus import Bus
from hasten.discovery import survey
from hasten.messages.chat import CHAT, Chunk, Done, Note
from hasten.models import EngineConfig
from hasten.nats_server import NatsServer
from hasten.orchestrator.hedge import Hedges
from hasten.topics import random_id
from hasten.worker.engines.tail import Tail
from loadtest.staleness.fleet import Member

TENANT = "loadtest"
USUAL_MS = 150.0
TAILS: dict[str, dict[str, float]] = {
    "stalls": {"sim_spread": 0.2, "sim_slow_share": 0.02, "sim_slow_ms": 2500.0, "sim_slow_shape": 1.5},
    "pareto": {"sim_spread": 0.2, "sim_slow_share": 0.10, "sim_slow_ms": 150.0, "sim_slow_shape": 1.0},
    "lognormal": {"sim_spread": 1.0},
}
CONFIG = """
[[models]]
name = "sim"
slug = "sim"
engine = {{ kind = "sim", slots = 16, sim_network_ms = {usual}, sim_decode_per_s = 500.0, sim_answer = "{answer}", \
sim_seed = {seed}, {tail} }}
"""
ANSWER = "The tide rises twice a day."
WARM_UP = 200
"""Requests before those that are measured: a router and an orchestrator know nothing at first."""


class Asked(msgspec.Struct, kw_only=True):
    """One request: when its first chunk came, and what was said of a second attempt."""

    ttft_ms: float = math.nan
    hedged: bool = False
    won: bool = False
    done: bool = False


class System:
    """The processes of one arm."""

    def __init__(self, server: NatsServer, bus: Bus, folder: Path, tail: str) -> None:
        self._server, self._bus, self._folder, self._tail = server, bus, folder, tail
        self._members: list[Member] = []

    async def start(self, workers: int, hedge_share: float) -> None:
        """Starts all of them."""
        await asyncio.gather(*(self.run(name) for name in ("router", "compressor")))
        await asyncio.gather(*(self.run("worker", seed=at + 1) for at in range(workers)))
        await self.run("orchestrator", HASTEN_ORCHESTRATOR_HEDGE_SHARE=str(hedge_share))

    async def run(self, service: str, seed: int = 0, **environment: str) -> None:
        """Starts one service."""
        config = self._folder / f"{service}{seed}.toml"
        tail = ", ".join(f"{name} = {value}" for name, value in TAILS[self._tail].items())
        config.write_text(CONFIG.format(answer=ANSWER, seed=seed, usual=USUAL_MS, tail=tail))
        command = [sys.executable, "-m", f"hasten.{service}", "--config", str(config), "--data", str(self._folder)]
        made = Member(service, command, environment, self._server.url, self._folder / f"{service}{seed}.log")
        self._members.append(made)
        await made.start()

    async def generations(self) -> int:
        """How many generations the workers have been asked for so far."""
        return sum(int(one.endpoints[0]["num_requests"]) for one in await survey(self._bus) if one.name == "worker")

    async def close(self) -> None:
        """Ends every process."""
        await asyncio.gather(*(member.stop() for member in self._members))


async def ask(bus: Bus) -> Asked:
    """Asks what nobody has asked, and reads the answer to its end."""
    began, asked = time.perf_counter(), Asked()
    question = f"What does article {random_id()} say?"
    body = {"messages": [{"role": "user", "content": question}], "cache": {"mode": "off"}}
    async with await bus.stream(CHAT, body, tenant=TENANT) as stream:
        async for event in stream:
            if isinstance(event, Chunk) and math.isnan(asked.ttft_ms):
                asked.ttft_ms = (time.perf_counter() - began) * 1000
            elif isinstance(event, Note) and event.kind == "hedge":
                asked.hedged, asked.won = True, event.data["won"] == event.data["workers"][1]
            asked.done = isinstance(event, Done)
    return asked


async def load(bus: Bus, requests: int, per_s: float, seed: int) -> list[Asked]:
    """Asks so many times a second on average, whenever an exponential clock says so."""
    draws, tasks = random.Random(seed), []
    due = time.perf_counter()
    for _ in range(requests):
        due += draws.expovariate(per_s)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(ask(bus)))
    return await asyncio.gather(*tasks)


async def arm(folder: Path, given: argparse.Namespace, share: float) -> dict[str, Any]:
    """The figures of one system; its calls are counted from the first of the warm-up on."""
    server = await NatsServer(folder / "jetstream").start()
    bus = await Bus.connect(server.url, name="loadtest")
    system = System(server, bus, folder, given.tail)
    try:
        await system.start(given.workers, share)
        warm = await load(bus, WARM_UP, given.rate, seed=1)
        asked = await load(bus, given.requests, given.rate, seed=2)
        calls = await system.generations()
        times = [one.ttft_ms for one in asked if one.done]
        return {
            "hedge_share": share,
            "requests": len(asked),
            "failed": sum(not one.done for one in asked),
            **{f"p{part * 100:g}_ms": round(percentile(times, part), 1) for part in (0.5, 0.95, 0.99, 0.999)},
            "hedged": sum(one.hedged for one in asked),
            "won": sum(one.won for one in asked),
            "extra_calls": round(calls / len(warm + asked) - 1, 4),
        }
    finally:
        await system.close()
        await bus.close()
        await server.stop(kill=True)


def virtual(tail: str, share: float, calls: int = 40_000) -> dict[str, float]:
    """The same in virtual time, without load: a worker and the one that is asked beside it draw on their own. The first
    quarter of the calls is not counted in the quantiles."""
    first, second = (
        Tail(msgspec.convert({"kind": "sim", "sim_seed": seed, **TAILS[tail]}, EngineConfig)) for seed in (1, 2)
    )
    hedges, times, made = Hedges(share), [], 0
    for _ in range(calls):
        hedges.called()
        ms, after_ms = first.first_token_s(USUAL_MS / 1000) * 1000, hedges.after_ms("sim", 0.0)
        if after_ms is not None and ms > after_ms and hedges.spend():
            ms, made = min(ms, after_ms + second.first_token_s(USUAL_MS / 1000) * 1000), made + 1
        hedges.heard("sim", ms)
        times.append(ms)
    parts = {
        f"p{part * 100:g}_ms": round(percentile(times[calls // 4 :], part), 1) for part in (0.5, 0.95, 0.99, 0.999)
    }
    return {"hedge_share": share, **parts, "extra_calls": round(made / calls, 4)}


async def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Both arms at the same time, so that what else the machine does slows both."""
    shares = {"without": 0.0, "with": given.share}
    with tempfile.TemporaryDirectory() as without, tempfile.TemporaryDirectory() as hedged:
        arms = [arm(Path(name), given, share) for name, share in zip((without, hedged), shares.values(), strict=True)]
        found: dict[str, Any] = dict(zip(shares, await asyncio.gather(*arms), strict=True))
        ratio = round(found["with"]["p99_ms"] / found["without"]["p99_ms"], 3)
        return {"tail": given.tail, **found, "p99_ratio": ratio}


def in_virtual_time(given: argparse.Namespace) -> dict[str, Any]:
    """Both arms of `virtual`."""
    found: dict[str, Any] = {
        name: virtual(given.tail, share) for name, share in (("without", 0.0), ("with", given.share))
    }
    return {"tail": given.tail, **found, "p99_ratio": round(found["with"]["p99_ms"] / found["without"]["p99_ms"], 3)}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.hedging", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1000, help="measured requests of each arm")
    parser.add_argument("--rate", type=float, default=10.0, help="requests per second, of each arm")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.03, help="the budget: hedges per call")
    parser.add_argument("--tail", choices=sorted(TAILS), default="stalls")
    parser.add_argument("--virtual", action="store_true", help="draws in place of processes")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = in_virtual_time(given) if given.virtual else asyncio.run(measure(given))
    if given.json:
        print(json.dumps(found, indent=2))
        return
    for name in ("without", "with"):
        print(f"{name:8}", "  ".join(f"{what} {value}" for what, value in found[name].items()))
    print(f"P99 with hedging / without: {found['p99_ratio']}")


if __name__ == "__main__":
    main()
