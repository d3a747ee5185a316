"""What each setting of an engine does to its latency, on this machine: the figures of docs/engines.md."""

import argparse
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import msgspec
import psutil

from hasten.models import LARGE, SMALL
from hasten.run import run_loop
from hasten.weights import folder, prepare, requantized
from loadtest.engine_readings import alone, cancels, crowd, prefix
from loadtest.engine_rig import Clock, Rig, model_of, request, running
from loadtest.engine_variants import BATCH, CONTEXT, DRAFT, PREFIX, QUANTIZATION, SPECULATIVE, Settings

PASSAGE = (
    "The yearly plan for the Harbour edition costs 1,299 euros for 25 seats, and VAT of 19 percent is added on the "
    "invoice. Customers in Norway pay in kroner at the rate of the day, and every seat beyond the twenty-fifth costs "
    "48 euros a year. The plan may be cancelled at the end of each quarter with a notice of 30 days, by letter or in "
    "the console."
)
COPY, FREE = f"Repeat this text word for word:\n{PASSAGE}", "Tell a story about a fox and a lighthouse."


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of one part, and its figures by name."""

    part: str
    setting: str
    figures: dict[str, float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Times in ms, rates in tokens per second. `load` is the machine's mean of the last minute, before and after.

    With the clock `cpu` it is the processor's time, of this process and of those that it has started: what an engine
    with one thread takes on a core of its own.
    """

    engine: str
    clock: str
    load: list[float]
    rows: list[Row]


class Bench:
    """The parts, each on engines of its own. `base` is what every row of the model table has in common."""

    def __init__(self, kind: str, base: Settings, data: Path, clock: Clock) -> None:
        self._kind, self._base, self._data, self._clock = kind, base, data, clock

    def _running(self, settings: Settings) -> AbstractAsyncContextManager[Rig]:
        return running(model_of(self._kind, **{**self._base, **settings}), self._data, self._clock)

    async def prefix(self) -> list[Row]:
        """A thousand tokens of system text asked about again, by the same tenant and by another."""
        rows = []
        for name, settings in PREFIX.get(self._kind, []):
            async with self._running(settings) as rig:
                rows.append(_row("prefix", name, await prefix(rig)))
        return rows

    async def speculative(self) -> list[Row]:
        """A hundred tokens that copy the prompt, and a hundred that do not."""
        rows = []
        embedded = self._kind == "llama" and self._base["path"] == SMALL.engine.path
        if embedded:
            requantized(folder(self._data) / LARGE.engine.path, "q4_0")
        for name, settings in SPECULATIVE.get(self._kind, []) + (DRAFT if embedded else []):
            async with self._running(settings) as rig:
                copied, free = await rig.ask(request(COPY, 100)), await rig.ask(request(FREE, 100))
            rows.append(_row("speculative", name, {"copy_per_s": copied.per_s, "free_per_s": free.per_s}))
        return rows

    async def slots(self) -> list[Row]:
        """Eight strangers at once, twice; `same` is the share of answers that are what one alone would have got."""
        rows = []
        for slots in (1, 4, 8):
            async with self._running({"slots": slots}) as rig:
                rows.append(_row("slots", str(slots), await crowd(rig)))
        return rows

    async def quantization(self) -> list[Row]:
        """A prompt of 139 tokens and an answer of 48, in each precision of the same weights."""
        rows = []
        for name, settings in QUANTIZATION.get(self._kind, []):
            async with self._running(settings) as rig:
                rows.append(_row("quantization", name or "f16", await alone(rig)))
        return rows

    async def batch(self) -> list[Row]:
        """Prompt tokens per second, and how long after an abort the slot begins to work for the next request."""
        rows = []
        for name, settings in BATCH.get(self._kind, []):
            async with self._running(settings) as rig:
                rows.append(_row("batch", name, await cancels(rig)))
        return rows

    async def context(self) -> list[Row]:
        """Memory and speed with four slots of each window."""
        rows = []
        for name, settings in CONTEXT.get(self._kind, []):
            before = psutil.Process().memory_info().rss
            async with self._running(settings) as rig:
                memory = (psutil.Process().memory_info().rss - before) / 2**20
                rows.append(_row("context", name, {"memory_mib": memory, **await alone(rig)}))
        return rows


def _row(part: str, setting: str, figures: dict[str, float]) -> Row:
    row = Row(part=part, setting=setting, figures={name: round(value, 2) for name, value in figures.items()})
    print(_line(row), file=sys.stderr)
    return row


def _line(row: Row) -> str:
    figures = ", ".join(f"{name} {value:g}" for name, value in row.figures.items())
    return f"{row.part:13} {row.setting:11} {figures}"


def table(report: Report) -> str:
    """The report as text, one part after the other."""
    heading = f"engine: {report.engine}, clock: {report.clock}, load {' → '.join(f'{one:.1f}' for one in report.load)}"
    return "\n".join([heading, *map(_line, report.rows)])


async def measure(kind: str, base: Settings, data: Path, only: list[str], clock: str) -> Report:
    """Runs the parts that are wanted, one after the other."""
    bench, load = Bench(kind, base, data, CLOCKS[kind][clock]), [os.getloadavg()[0]]
    parts: dict[str, Callable[[], Awaitable[list[Row]]]] = {
        part: getattr(bench, part) for part in PARTS if part in only or not only
    }
    rows = [row for part in parts.values() for row in await part()]
    return Report(engine=kind, clock=clock, load=[*load, os.getloadavg()[0]], rows=rows)


def _processor_s() -> float:
    """Seconds of the processor that this process and those that it has started have used; looking costs ten ms."""
    used = time.process_time()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            used += sum(child.cpu_times()[:2])
    return used


CLOCKS: dict[str, dict[str, Clock]] = {
    "llama": {"wall": time.perf_counter, "cpu": time.process_time},
    "sim": {"wall": time.perf_counter, "cpu": time.process_time},
    "vllm": {"wall": time.perf_counter, "cpu": _processor_s},
}
PARTS = ("prefix", "speculative", "slots", "quantization", "batch", "context")


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.engine_settings", description=__doc__, epilog=Report.__doc__
    )
    parser.add_argument("--engine", choices=["llama", "vllm"], default="llama")
    parser.add_argument("--data", type=Path, default=Path(".hasten"), help="the data folder; models are in its models/")
    parser.add_argument("--path", help="the model to measure, as in a row of the model table")
    parser.add_argument("--set", default="{}", metavar="JSON", help="more fields of [models.engine], for every part")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu where the machine has other work")
    parser.add_argument("--only", action="append", choices=PARTS, default=[])
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    given = parser.parse_args()
    base = {"path": given.path or SMALL.engine.path, **msgspec.json.decode(given.set)}
    if given.engine == "llama" and not given.path:
        prepare(given.data, lambda line: print(line, file=sys.stderr))
    found: list[Report] = []

    async def work() -> int:
        found.append(await measure(given.engine, base, given.data, given.only, given.clock))
        return 0

    code = run_loop(work())
    for report in found:
        print(msgspec.json.encode(report).decode() if given.json else table(report))
    return code


if __name__ == "__main__":
    sys.exit(main())
