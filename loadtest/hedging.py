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
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from hasten.bench.figures import percentile
from hasten.bus import Bus
from hasten.messages.chat import CHAT, Chunk, Done, Note
from hasten.models import EngineConfig
from hasten.orchestrator.hedge import Hedges
from hasten.topics import random_id
from hasten.worker.engines.tail import Tail
from loadtest.pipeline import pipeline

TENANT = "loadtest"
USUAL_MS = 150.0
TAILS: dict[str, dict[str, float]] = {
    "stalls": {"sim_spread": 0.2, "sim_slow_share": 0.02, "sim_slow_ms": 2500.0, "sim_slow_shape": 1.5},
    "pareto": {"sim_spread": 0.2, "sim_slow_share": 0.10, "sim_slow_ms": 150.0, "sim_slow_shape": 1.0},
    "lognormal": {"sim_spread": 1.0},
}
ENGINE = 'kind = "sim", slots = 16, sim_network_ms = {usual}, sim_decode_per_s = 500.0, sim_answer = "{answer}"'
ANSWER = "The tide rises twice a day."
WARM_UP = 200
"""Requests before those that are measured: a router and an orchestrator know nothing at first."""


class Asked(msgspec.Struct, kw_only=True):
    """One request: when its first chunk came, and what was said of a second attempt."""

    ttft_ms: float = math.nan
    hedged: bool = False
    won: bool = False
    done: bool = False


def engine(tail: str, seed: int) -> str:
    """The engine of one worker, as a table of TOML: what it draws goes by its seed."""
    drawn = "".join(f", {name} = {value}" for name, value in TAILS[tail].items())
    return f"{ENGINE.format(usual=USUAL_MS, answer=ANSWER)}, sim_seed = {seed}{drawn}"


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


def parts(times: Sequence[float]) -> dict[str, float]:
    """The percentiles that are shown."""
    return {f"p{share * 100:g}_ms": round(percentile(times, share), 1) for share in (0.5, 0.95, 0.99, 0.999)}


async def arm(given: argparse.Namespace, share: float) -> dict[str, Any]:
    """The figures of one system; its calls are counted from the first of the warm-up on."""
    async with pipeline(engine(given.tail, 0), HASTEN_ORCHESTRATOR_HEDGE_SHARE=str(share)) as system:
        seeds = range(1, given.workers + 1)
        await asyncio.gather(*(system.add_worker(f"w{seed}", engine=engine(given.tail, seed)) for seed in seeds))
        warm = await load(system.bus, WARM_UP, given.rate, seed=1)
        asked = await load(system.bus, given.requests, given.rate, seed=2)
        calls = sum((await system.generations()).values())
        return {
            "hedge_share": share,
            "requests": len(asked),
            "failed": sum(not one.done for one in asked),
            **parts([one.ttft_ms for one in asked if one.done]),
            "hedged": sum(one.hedged for one in asked),
            "won": sum(one.won for one in asked),
            "extra_calls": round(calls / len(warm + asked) - 1, 4),
        }


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
    return {"hedge_share": share, **parts(times[calls // 4 :]), "extra_calls": round(made / calls, 4)}


async def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Both arms at the same time, so that what else the machine does slows both."""
    without, hedged = await asyncio.gather(arm(given, 0.0), arm(given, given.share))
    return compared(given.tail, without, hedged)


def in_virtual_time(given: argparse.Namespace) -> dict[str, Any]:
    """Both arms of `virtual`."""
    return compared(given.tail, virtual(given.tail, 0.0), virtual(given.tail, given.share))


def compared(tail: str, without: dict[str, Any], hedged: dict[str, Any]) -> dict[str, Any]:
    """Two arms and what hedging makes of the P99."""
    ratio = round(hedged["p99_ms"] / without["p99_ms"], 3)
    return {"tail": tail, "without": without, "with": hedged, "p99_ratio": ratio}


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
