"""What rules on the stream add to a chunk: none, 1, 10 and 50 expressions, a function and a tool on a subject.

Paced streams, each chunk due at its moment whatever the others do. The delay of a chunk is from that moment until all
of its text has been given out. One whose end may belong to a match goes on with the next chunk, whatever the time that
takes: it counts as held, and as having none.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from hasten import demo
from hasten.bus import Bus
from hasten.chunks import split_text
from hasten.deadline import now_ms
from hasten.messages.chat import Chunk
from hasten.messages.guard import GUARD, GuardVerdict, GuardWindow
from hasten.nats_server import NatsServer, free_port
from hasten.orchestrator.guard.guarded import Guarded
from hasten.orchestrator.guard.rule import GuardRule
from hasten.orchestrator.guard.rules import Guard, Rules
from hasten.run import run_loop
from hasten.service import Call, Service

TENANT = "demo"
PATTERNS = [
    r"[\w.+-]+@[\w-]+\.[\w.-]+\w",
    r"\b(?:\d[ -]?){13,16}\b",
    r"\bsk-[A-Za-z0-9]{16,48}\b",
    r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}\b",
    r"\b\d{3}-\d{2}-\d{4}\b",
    r"(?i)\bpassword\s*[:=]\s*\S+",
    r"\b(?:\d{1,3}\.){3}\d{1,3}\b",
    r"\+\d{1,3}[ \d]{6,14}\d",
    r"(?i)\bconfidential\b",
    r"-----BEGIN [A-Z ]+-----",
]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of rules at so many streams: the delay of what was given out at once (ms), the share that was held, and
    how many times the median is what it is without rules."""

    rules: str
    streams: int
    chunks: int
    p50_ms: float
    p99_ms: float
    held: float
    ratio: float = 1.0


async def quiet(_: str, window: GuardWindow) -> GuardVerdict:
    """A function that finds nothing."""
    return GuardVerdict()


def kinds() -> dict[str, list[GuardRule]]:
    """The rules that are compared."""
    fifty = [*PATTERNS, *(rf"(?i)\bproject[ -]{name}\d*\b" for name in _names(40))]
    made = [GuardRule(name=f"p{at}", pattern=pattern) for at, pattern in enumerate(fifty)]
    return {
        "none": [],
        "1 pattern": made[:1],
        "10 patterns": made[:10],
        "50 patterns": made,
        "function": [GuardRule(name="f", call="loadtest.stream_guard:quiet", timeout_ms=5000)],
        "subject": [GuardRule(name="s", subject=GUARD.template, timeout_ms=5000)],
    }


def _names(count: int) -> list[str]:
    return [f"{first}{second}" for first in ("ald", "bor", "cyr", "dun", "esk") for second in "aeioukst"][:count]


class Reading:
    """One paced stream: when each chunk was due, and when its last character was given out."""

    def __init__(self, rules: Rules, pieces: list[str], rate: float) -> None:
        self._pieces, self._rate = pieces, rate
        self._judged = bool(rules.judges["text"])
        self._given = self._taken = 0
        self._open: list[tuple[int, float]] = []
        self.delays: list[float] = []
        self.held = 0
        self._guarded = Guarded(rules, TENANT, lambda: now_ms() + 60_000, self._give)

    def _give(self, chunk: Chunk) -> None:
        now = time.perf_counter()
        self._given += len(chunk.text)
        while self._open and self._open[0][0] <= self._given:
            self.delays.append((now - self._open.pop(0)[1]) * 1000)

    async def run(self, start_s: float) -> None:
        """Takes each piece at its moment."""
        for at, piece in enumerate(self._pieces):
            due = start_s + at / self._rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
                due = max(due, time.perf_counter()) if wait > 0.001 else due
            self._taken += len(piece)
            self._open.append((self._taken, due))
            await self._guarded.take(Chunk(seq=at, text=piece))
            if not self._judged:
                self.held += len(self._open)
                self._open.clear()
        await self._guarded.end()


async def measured(name: str, rules: Rules, streams: int, words: list[str], chunks: int, rate: float) -> Row:
    """One row."""
    readings = [
        Reading(rules, [words[(at * 37 + number) % len(words)] for at in range(chunks)], rate)
        for number in range(streams)
    ]
    start_s = time.perf_counter() + 0.2
    await asyncio.gather(*(one.run(start_s + at / streams / rate) for at, one in enumerate(readings)))
    delays = sorted(delay for one in readings for delay in one.delays)
    total, held = streams * chunks, sum(one.held for one in readings)
    p50, p99 = (delays[min(len(delays) - 1, int(share * len(delays)))] for share in (0.5, 0.99))
    return Row(
        rules=name,
        streams=streams,
        chunks=total,
        p50_ms=round(p50, 4),
        p99_ms=round(p99, 4),
        held=round(held / total, 3),
    )


async def serve(url: str) -> int:
    """A guard on a subject, which finds nothing, as a process of its own; says when it hears."""

    async def judge(window: GuardWindow, call: Call) -> GuardVerdict:
        return GuardVerdict()

    service = Service(await Bus.connect(url), "guard", "A guard that finds nothing")
    service.answer(GUARD, judge, limit=1024, rule="s")
    await service.start()
    print("ready", flush=True)
    await asyncio.Event().wait()
    return 0


@asynccontextmanager
async def tool(url: str) -> AsyncIterator[None]:
    """The process of such a guard."""
    command = [sys.executable, "-m", "loadtest.stream_guard", "--tool", url]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def run(options: argparse.Namespace) -> int:
    """Measures all rows and prints them."""
    articles = sorted((Path(demo.__file__).parent / "articles").glob("*.md"))
    words = split_text("\n".join(path.read_text() for path in articles))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        server = NatsServer(Path(folder), port=free_port(14222))
        await server.start()
        bus = await Bus.connect(server.url)
        async with tool(server.url):
            for streams in options.streams:
                for name, rules in kinds().items():
                    ready = Guard(bus, rules).of(TENANT)
                    await measured(name, ready, streams, words, min(10, options.chunks), options.rate)
                    made = await measured(name, ready, streams, words, options.chunks, options.rate)
                    first = next((row for row in rows if row.streams == streams), made)
                    rows.append(msgspec.structs.replace(made, ratio=round(made.p50_ms / first.p50_ms, 2)))
                    print(f"{name} at {streams}", file=sys.stderr)
        await bus.close()
        await server.stop()
    print("rules         streams  chunks   p50 ms   p99 ms  ratio   held")
    for row in rows:
        said = f"{row.rules:12} {row.streams:8} {row.chunks:7} {row.p50_ms:8.3f} {row.p99_ms:8.3f}"
        print(f"{said} {row.ratio:6.1f} {row.held:6.1%}")
    if options.json:
        options.json.write_text(json.dumps(msgspec.to_builtins(rows), indent=1))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 200])
    parser.add_argument("--chunks", type=int, default=100, help="of each stream")
    parser.add_argument("--rate", type=float, default=10.0, help="chunks of each stream in a second")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--tool", help=argparse.SUPPRESS)
    options = parser.parse_args()
    return run_loop(serve(options.tool) if options.tool else run(options))


if __name__ == "__main__":
    sys.exit(main())
