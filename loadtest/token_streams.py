"""Many streams at once, slow and fast: gaps, what is added to each chunk, the memory it takes, and slow readers' fate.

`python -m loadtest.token_streams` starts a NATS server, a router, compressor, orchestrator, gateway and worker,
each a process of its own. The worker's simulator writes into each token when it was due (`loadtest.stamped`), which all
that is added counts from: its own loop, the joining, the way to the orchestrator and to the reader. `--json` prints the
figures for programs.
"""

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import nats
import psutil
from nats.aio.msg import Msg

from hasten.chunks import JOIN_S
from hasten.keys import ensure_key
from hasten.messages.chat import CHAT
from hasten.nats_server import free_port
from hasten.topics import random_id
from loadtest.pipeline import MODEL, Pipeline, cores, pipeline
from loadtest.slow_reader import Fate, read_slowly
from loadtest.spread import spread
from loadtest.stamped import KIND

TENANT = "loadtest"
SILENCE_S = 60.0
EVERY_S = 0.25
WRITE_TIMEOUT_S, MAX_UNSENT = 4.0, 16_384
"""The gateway's limits here, lower than its defaults, so that a short run sees both."""


READ_PER_S = {"stopped": 0, "far too slow": 6_000, "slow": 25_000}
"""Bytes a second of the readers over HTTP; a stream of 1,000 tokens a second has about 35,000, of 10 about 2,000."""


class _Event(msgspec.Struct):
    type: str = ""
    seq: int = 0
    text: str = ""
    chunks: int = 0
    code: str = ""


class Reader(msgspec.Struct):
    """One stream as it came: the next number, what was wrong, how old (ms) the first and last token of each chunk."""

    next_seq: int = 0
    gaps: int = 0
    doubled: int = 0
    tokens: int = 0
    ended: str = ""
    oldest_ms: list[float] = []
    newest_ms: list[float] = []

    def take(self, event: _Event, now: float) -> None:
        """Takes in an event that came at `now` (monotonic s)."""
        if event.type == "chunk":
            self.gaps += event.seq > self.next_seq
            self.doubled += event.seq < self.next_seq
            self.next_seq = event.seq + 1
            self.tokens += event.text.count(" ")
            first, _, rest = event.text.partition(" ")
            last = rest.rstrip().rpartition(" ")[2] or first
            self.oldest_ms.append((now - float(first)) * 1000)
            self.newest_ms.append((now - float(last)) * 1000)
        elif event.type in ("done", "failure"):
            self.gaps += event.type == "done" and event.chunks != self.next_seq
            self.ended = event.code or event.type


class Crowd:
    """Readers on the bus, over one subscription, as cheap as they can be: what is measured is not them."""

    def __init__(self) -> None:
        self.readers: dict[str, Reader] = {}
        self._decode = msgspec.json.Decoder(_Event).decode
        self._ended = asyncio.Event()
        self._open = 0

    async def read(self, url: str, count: int, tokens: int, spread_s: float) -> None:
        """Asks so many questions over `spread_s`, and returns when all streams have ended."""
        client = await nats.connect(url)
        inbox = f"_INBOX.{random_id()}"
        await client.subscribe(f"{inbox}.*", cb=self._hear, pending_msgs_limit=-1, pending_bytes_limit=-1)
        for at in range(count):
            reply = f"{inbox}.{at}"
            self.readers[reply], self._open = Reader(), self._open + 1
            await client.publish(CHAT.subject(tenant=TENANT), msgspec.json.encode(question(tokens)), reply=reply)
            await asyncio.sleep(spread_s / count)
        async with asyncio.timeout(SILENCE_S):
            await self._ended.wait()
        await client.close()

    async def _hear(self, msg: Msg) -> None:
        now = time.monotonic()
        reader = self.readers[msg.subject]
        reader.take(self._decode(msg.data), now)
        if reader.ended:
            self._open -= 1
            if not self._open:
                self._ended.set()


def question(tokens: int) -> dict[str, Any]:
    """A request for so many tokens, which nothing but a worker can answer."""
    asked = [{"role": "user", "content": f"question {random_id()}"}]
    return {"messages": asked, "model": MODEL, "max_tokens": tokens, "cache": {"mode": "off"}}


class Memory:
    """The resident memory (MB) of some processes, from a first look on."""

    def __init__(self, members: dict[str, int]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in members.items()}
        self._first = self._now()
        self._most = dict(self._first)

    def _now(self) -> dict[str, float]:
        return {name: one.memory_info().rss / 1e6 for name, one in self._processes.items()}

    async def watch(self) -> None:
        """Looks again and again until it is cancelled."""
        while True:
            self._most = {name: max(now, self._most[name]) for name, now in self._now().items()}
            await asyncio.sleep(EVERY_S)

    @property
    def growth(self) -> dict[str, float]:
        """How much more each had at most than at first."""
        return {name: round(most - self._first[name], 1) for name, most in self._most.items()}


async def at_rate(per_s: int, streams: int, seconds: float, slow: int) -> dict[str, Any]:
    """The figures of one rate, in a system of its own; `slow` readers over HTTP of each kind come on top."""
    engine = f'kind = "{KIND}", slots = {streams + 3 * slow + 1}, queue = {streams}, sim_decode_per_s = {per_s}.0'
    http = f"127.0.0.1:{free_port()}"
    limits = {"WRITE_TIMEOUT_S": str(WRITE_TIMEOUT_S), "MAX_UNSENT_BYTES": str(MAX_UNSENT), "HTTP": http}
    async with pipeline(engine) as system:
        key = await ensure_key(system.bus, TENANT, Path(system.folder))
        await system.add_worker("w1", module="loadtest.stamped")
        await system.add("gateway", "gateway", **{f"HASTEN_GATEWAY_{name}": value for name, value in limits.items()})
        await Crowd().read(system.server.url, streams, min(per_s, 20), spread_s=1.0)
        memory = Memory({name: member.pid for name, member in system.members.items()})
        watching = asyncio.ensure_future(memory.watch())
        tokens, crowd = round(per_s * seconds), Crowd()
        slows = [
            asyncio.ensure_future(read_slowly(f"http://{http}", key, question(tokens), bytes_per_s, seconds))
            for _ in range(slow)
            for bytes_per_s in READ_PER_S.values()
        ]
        before = times(system)
        await crowd.read(system.server.url, streams, tokens, spread_s=1.0)
        fates = await asyncio.gather(*slows)
        watching.cancel()
        return report(crowd, tokens, fates) | {"cpu_s": spent(before, times(system)), "grown_mb": memory.growth}


def times(system: Pipeline) -> dict[str, float]:
    """The processor time (s) that each process has had."""
    found = {name: psutil.Process(member.pid).cpu_times() for name, member in system.members.items()}
    return {name: one.user + one.system for name, one in found.items()}


def spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """The difference of two looks at `times`."""
    return {name: round(now - before[name], 2) for name, now in after.items()}


def report(crowd: Crowd, tokens: int, fates: Sequence[Fate]) -> dict[str, Any]:
    """What the readers saw."""
    readers = list(crowd.readers.values())
    chunks = sum(len(reader.newest_ms) for reader in readers)
    return {
        "streams": len(readers),
        "whole": sum(reader.tokens == tokens and reader.ended == "done" for reader in readers),
        "chunks": chunks,
        "tokens_per_chunk": round(sum(reader.tokens for reader in readers) / max(1, chunks), 1),
        "gaps": sum(reader.gaps for reader in readers),
        "doubled": sum(reader.doubled for reader in readers),
        "newest_token_ms": spread([ms for reader in readers for ms in reader.newest_ms]),
        "oldest_token_ms": spread([ms for reader in readers for ms in reader.oldest_ms]),
        "http_readers": {
            name: [msgspec.to_builtins(fate) for fate in fates[at :: len(READ_PER_S)]]
            for at, name in enumerate(READ_PER_S)
        },
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.token_streams", description=__doc__)
    parser.add_argument("--streams", type=int, default=200, help="at once")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each stream takes")
    parser.add_argument("--rates", type=int, nargs="+", default=[10, 1000], help="tokens per second of each stream")
    parser.add_argument("--slow", type=int, default=2, help="readers over HTTP of each of three kinds")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    gc.disable()
    found: dict[str, Any] = {"cores": cores(), "join_ms": JOIN_S * 1000}
    for rate in given.rates:
        found[f"{rate}/s"] = asyncio.run(at_rate(rate, given.streams, given.seconds, given.slow))
    if given.json:
        print(json.dumps(found, indent=2))
        return
    for name, figures in found.items():
        print(name, "" if isinstance(figures, dict) else figures)
        for what, value in figures.items() if isinstance(figures, dict) else ():
            print(f"  {what:18} {value}")


if __name__ == "__main__":
    main()
