"""`hasten bench`: the budgets, measured."""

import asyncio
import contextlib
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from hasten import address
from hasten.bench.chunk_delay import Tapped
from hasten.bench.figures import Figure, Measured, figures
from hasten.bench.filler import Told
from hasten.bench.freshness import freshened, freshness_figures
from hasten.bench.held import Held, held
from hasten.bench.metrics import LAG, LATE_S, Metrics, above, between, total
from hasten.bench.plan import LOOSE_ENTRIES, QUICK, Sizes, measure
from hasten.bench.probes import Probes, tapped
from hasten.bench.target import STREAMER, running, started_here, streaming
from hasten.client import Hasten
from hasten.commands.options import DATA, Data, Json, Nats
from hasten.run import run_loop, say
from hasten.telemetry import configure_logging


def bench(
    nats: Nats = None,
    data: Data = DATA,
    engine: Annotated[
        str, typer.Option(metavar="embedded|sim|openai:URL", help="For the system it starts when none runs.")
    ] = "embedded",
    entries: Annotated[int | None, typer.Option(min=0, help="Cached answers beside the one that is hit.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the samples and entries.")] = False,
    as_json: Json = False,
) -> None:
    """Measure the budgets against bare NATS and the engine alone, on the running system or on one of its own."""
    sizes = QUICK if quick else Sizes()
    if entries is not None:
        sizes = msgspec.structs.replace(sizes, entries=entries)

    async def work() -> int:
        own = started_here(nats, data)
        async with running(nats, data, engine, sizes.entries) as found:
            seen, report = await run_bench(found, sizes, data)
        if own:
            seen.chunks = await run_streams(data, sizes)
        else:
            report.remarks.append("the delay of chunks is not shown: it takes a system of the benchmark's own")
        report = msgspec.structs.replace(report, figures=[*figures(seen), *report.figures])
        if as_json:
            print(msgspec.json.encode(report).decode())
        else:
            show(report)
            if quick:
                say("a quick run has too few samples for a verdict: run it without --quick for one")
        return 0

    configure_logging()
    raise typer.Exit(run_loop(work()))


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The rows, what the system held at the end, and of the event loop's wake-ups during the run how many were more
    than 20 ms late. `remarks` say what is missing and why."""

    figures: list[Figure] = []
    held: list[Held] = []
    loop_samples: int = 0
    loop_late: int = 0
    remarks: list[str] = []


async def run_streams(data: Path, sizes: Sizes) -> Tapped:
    """Measures the way of chunks, in another system that does nothing else."""
    say(f"measuring chunks of {sizes.streams} streams")
    async with streaming(data, sizes.streams) as found:
        return await tapped(found.nats, sizes.streams, STREAMER)


async def run_bench(found: address.Address, sizes: Sizes, data: Path) -> tuple[Measured, Report]:
    """Measures in a tenant of its own and clears it afterwards; the report has the figures of changes only."""

    async def watch() -> Metrics:
        return await Metrics.read(found.http)

    rows, remarks = list[Held](), list[str]()
    async with Hasten.connect(found.nats, tenant=f"bench-{secrets.token_hex(4)}") as hasten:
        probes = Probes(hasten)
        before = (await Metrics.read(found.http)).buckets(LAG)
        async with probes.ready(found.nats):
            try:
                with _progress() as told:
                    seen = await measure(probes, sizes, watch, say, told)
                say("measuring how soon a change takes effect")
                fresh = await freshened(hasten.bus, hasten.tenant, sizes.semantic)
                if found.pid:
                    rows = await asyncio.to_thread(held, found.pid, data)
                else:
                    remarks.append("memory and disk are not shown: with --nats the system may be anywhere")
            finally:
                say("removing what was stored")
                if left := await probes.clear():
                    remarks.append(f"{left:,} entries of the benchmark are still in the cache, until they expire")
        late = between(before, (await Metrics.read(found.http)).buckets(LAG))
    if seen.search is None:
        remarks.append("searches and the event loop are not shown: they are in the metrics of the gateway of hasten up")
    if probes.refused:
        remarks.append(
            f"{probes.refused:,} puts were refused at first while the cache was filled: its store was too slow"
        )
    if seen.loose > LOOSE_ENTRIES:
        remarks.append(f"{seen.loose:,} entries were in no graph yet: searches are slower then")
    loop: dict[str, Any] = {"loop_samples": total(late), "loop_late": above(late, LATE_S)}
    rows_of_changes = freshness_figures(fresh, seen.bare)
    return seen, Report(figures=rows_of_changes, held=rows, remarks=remarks, **loop)


@contextlib.contextmanager
def _progress() -> Iterator[Told]:
    """A bar while entries are stored, where somebody looks."""
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("storing", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def show(report: Report) -> None:
    """Prints the table for people."""
    table = Table("", "p50 ms", "p99 ms", "samples", "per s", "beside", "ratio", "budget", "met", box=None)
    for row in report.figures:
        beside = "" if row.baseline_ms is None else f"{row.baseline} {row.baseline_ms:g} ms"
        ratio = "" if row.ratio is None else f"{row.ratio:g}"
        met = {None: "", True: "yes", False: "NO"}[row.met]
        per_s = "" if row.per_s is None else f"{row.per_s:,.0f}"
        times = (f"{row.p50_ms:g}", f"{row.p99_ms:g}", str(row.samples), per_s)
        table.add_row(row.what, *times, beside, ratio, row.budget, met)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 176)
    console.print(table)
    if report.loop_samples:
        late = f"{report.loop_late} of {report.loop_samples} wake-ups of the event loop"
        console.print(f"{late} were more than 20 ms late (budget: never)")
    for one in report.held:
        memory = f"{one.own_mb:,} MB of its own, {one.mapped_mb:,} MB of mapped files"
        console.print(f"{one.what}: {memory if one.own_mb else f'{one.disk_mb:,} MB'}")
    for remark in report.remarks:
        console.print(remark)
