"""What one request costs: processor time (µs) in each service, by kind of answer, over the bus and over HTTP.

`python -m loadtest.cost_per_request` starts a NATS server and every service that a question without documents needs,
each a process of its own, asks the same kind of question again and again, and reads what the kernel has counted for
each process, less what it takes when nobody asks. The model is simulated and writes `--tokens` words, each a chunk of
its own; answers of a quarter of that say what a chunk costs. The one who asks is not counted. The embedding model is
the real one, of the data folder `--data`; it is exported there once. `--json` prints the figures for
programs, `--page docs/per-core.md` puts them there.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hasten.bus import Bus
from hasten.chunks import JOIN_S
from hasten.embedder.settings import DEFAULT_MODEL
from hasten.keys import ensure_key
from hasten.messages.chat import CHAT, Done
from hasten.nats_server import free_port
from hasten.prepare import prepare
from hasten.topics import random_id
from loadtest.http_lane import HttpLanes
from loadtest.marked import put
from loadtest.pipeline import MODEL, Pipeline, cores, pipeline
from loadtest.processor_time import cost_us, per_core, processor_s

TENANT = "loadtest"
IDLE_S, SETTLE_S = 3.0, 0.5
PER_S = 0.9 / JOIN_S
"""Words a second of the simulated model: so slow that none is joined to the one before."""
THINGS = ("lamp", "chair", "table", "kettle", "bicycle", "jacket", "camera", "guitar", "carpet", "mirror")
STORED = "How can I change the delivery address of my {} order?"
ASKED = "How do I change the delivery address of my {} order?"
LONG, SHORT = "miss, not kept", "miss, not kept, a quarter as long"
Ask = Callable[[dict[str, Any]], Awaitable[str]]
"""Asks a chat body and returns where the answer came from."""


def question(text: str, **options: Any) -> dict[str, Any]:
    """A chat body."""
    return {"messages": [{"role": "user", "content": text}], "model": MODEL, **options}


async def over_bus(bus: Bus, body: dict[str, Any]) -> str:
    """Asks over NATS."""
    last: Any = None
    async with await bus.stream(CHAT, body, tenant=TENANT) as stream:
        async for event in stream:
            last = event
    return last.cache if isinstance(last, Done) else f"failure {last.code}"


async def over_http(lanes: HttpLanes, body: dict[str, Any]) -> str:
    """Asks over HTTP, streamed."""
    told = await lanes.post("/v1/chat/completions", {**body, "stream": True})
    return told.header("x-hasten-cache") if told.status == 200 else f"status {told.status}"


async def crowd(ask: Ask, bodies: list[dict[str, Any]], parallel: int) -> dict[str, int]:
    """Asks all of them, so many at once, and counts where the answers came from."""
    waiting, sources = iter(bodies), dict[str, int]()

    async def one_after_the_other() -> None:
        for body in waiting:
            source = await ask(body)
            sources[source] = sources.get(source, 0) + 1

    await asyncio.gather(*(one_after_the_other() for _ in range(parallel)))
    return sources


class Costs:
    """Measures on one system."""

    def __init__(self, system: Pipeline) -> None:
        self._pids = {name: member.pid for name, member in system.members.items()} | {"nats": system.server.pid}
        self._idle: dict[str, float] = {}

    async def rest(self) -> dict[str, float]:
        """Notes, and returns, what each process takes (s per s) while nobody asks."""
        await asyncio.sleep(SETTLE_S)
        before, since = processor_s(self._pids), time.monotonic()
        await asyncio.sleep(IDLE_S)
        after, took = processor_s(self._pids), time.monotonic() - since
        self._idle = {name: (after[name] - before[name]) / took for name in after}
        return self._idle

    async def of(self, ask: Ask, bodies: list[dict[str, Any]], parallel: int) -> dict[str, Any]:
        """What these requests cost, after one round of warming up with some of them."""
        before, since = processor_s(self._pids), time.monotonic()
        sources = await crowd(ask, bodies, parallel)
        await asyncio.sleep(SETTLE_S)
        after, took = processor_s(self._pids), time.monotonic() - since
        costs = cost_us({name: after[name] - before[name] for name in after}, self._idle, took, len(bodies))
        return {"us": costs, "total_us": sum(costs.values()), "per_core": round(per_core(costs)), "answers": sources}


def kinds(count: int, tokens: int) -> dict[str, tuple[list[dict[str, Any]], int]]:
    """The bodies of each kind of request, and how many are asked at once."""

    def unique(**options: Any) -> list[dict[str, Any]]:
        return [question(f"question {random_id()} of many", **options) for _ in range(count)]

    exact, unkept = {"mode": "exact"}, {"mode": "exact", "store": False}
    alike = [question(ASKED.format(thing), cache={"store": False}) for thing in THINGS]
    return {
        "miss": (unique(cache=exact), 16),
        "miss by meaning too": (unique(), 16),
        LONG: (unique(cache=unkept), 16),
        SHORT: (unique(cache=unkept, max_tokens=tokens // 4), 16),
        "exact hit": ([question(STORED.format(thing)) for thing in THINGS] * (4 * count // len(THINGS)), 4),
        "semantic hit": (alike * (count // len(alike)), 4),
    }


async def measure(data: Path, count: int, tokens: int) -> dict[str, Any]:
    """Everything, on one system."""
    await prepare(data, [], DEFAULT_MODEL, lambda line: print(line, file=sys.stderr))
    engine = f'kind = "sim", slots = 64, queue = 64, sim_prefill_per_s = 1e9, sim_decode_per_s = {PER_S}'
    engine += f', sim_answer = "{"word " * tokens}"'
    http = f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "models").symlink_to((data / "models").absolute())
        async with pipeline(engine) as system:
            await system.add("embedder", "embedder", HASTEN_EMBEDDER_DATA=folder)
            await system.add("cache", "cache")
            key = await ensure_key(system.bus, TENANT, system.folder)
            await system.add("gateway", "gateway", HASTEN_GATEWAY_HTTP=http)
            await system.add_worker("w1")
            lanes = HttpLanes(f"http://{http}", {"Authorization": f"Bearer {key}"})
            ways: dict[str, Ask] = {
                "bus": lambda body: over_bus(system.bus, body),
                "http": lambda body: over_http(lanes, body),
            }
            found = await _costs(Costs(system), ways, count, tokens)
            lanes.close()
            await system.leave("cache")
            return {"cores": cores(), "requests": count, "tokens": tokens, **found}


async def _costs(costs: Costs, ways: dict[str, Ask], count: int, tokens: int) -> dict[str, Any]:
    first = [question(STORED.format(thing)) for thing in THINGS]
    for ask in ways.values():
        await crowd(ask, [*first, *first], 1)
    idle = {name: round(used * 1e6) for name, used in (await costs.rest()).items()}
    kinds_of = {
        way: {kind: await costs.of(ask, *given) for kind, given in kinds(count, tokens).items()}
        for way, ask in ways.items()
    }
    return {"idle_us_per_s": idle, "ways": {way: with_chunks(found, tokens) for way, found in kinds_of.items()}}


def with_chunks(found: dict[str, Any], tokens: int) -> dict[str, Any]:
    """The figures with what one chunk costs: the difference of two lengths."""
    long, short = found[LONG]["us"], found[SHORT]["us"]
    chunk = {name: round((long[name] - short[name]) / (tokens - tokens // 4), 1) for name in long}
    row = {"us": chunk, "total_us": round(sum(chunk.values()), 1), "per_core": None, "answers": {}}
    return {**found, "each chunk": row}


def table(found: dict[str, Any]) -> list[str]:
    """The figures as rows of Markdown."""
    names = list(found["idle_us_per_s"])
    rows = [
        "| way, answer | " + " | ".join(names) + " | together | requests/s per core |",
        "|---|" + "---|" * (len(names) + 2),
    ]
    for way, kinds_of in found["ways"].items():
        for kind, row in kinds_of.items():
            figures = [f"{row['us'][name]:,}" for name in names]
            rate = f"{row['per_core']:,}" if row["per_core"] else ""
            rows.append(f"| {way}, {kind} | " + " | ".join(figures) + f" | {row['total_us']:,} | {rate} |")
    return rows


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.cost_per_request", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(".hasten"), help="where the embedding model is, or is put")
    parser.add_argument("--requests", type=int, default=200, help="of each kind; four times as many exact hits")
    parser.add_argument("--tokens", type=int, default=48, help="of an answer")
    parser.add_argument("--page", type=Path, metavar="FILE", help="a page that has a place for the table")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = asyncio.run(measure(given.data, given.requests, given.tokens))
    if given.page:
        put(given.page, "costs", "\n".join(table(found)))
    if given.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{found['cores']} cores; processor time in µs, answers of {found['tokens']} words, each a chunk\n")
    print("\n".join(table(found)))
    for way, kinds_of in found["ways"].items():
        print(f"\n{way}: " + ", ".join(f"{kind} {row['answers']}" for kind, row in kinds_of.items() if row["answers"]))


if __name__ == "__main__":
    main()
