"""`hasten bench`: the budgets, measured."""

import secrets
import sys
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from hasten import address
from hasten.bench import loop
from hasten.bench.figures import Figure, figures
from hasten.bench.freshness import freshened, freshness_figures
from hasten.bench.plan import QUICK, Sizes, measure
from hasten.bench.probes import Probes
from hasten.bench.target import running
from hasten.client import Hasten
from hasten.commands.options import DATA, Data, Json, Nats
from hasten.messages.cache import Invalidate
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
        async with running(nats, data, engine) as found:
            report = await run_bench(found, sizes)
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
    """The rows, and of the event loop's wake-ups during the run how many were more than 20 ms late."""

    figures: list[Figure]
    loop_samples: int = 0
    loop_late: int = 0


async def run_bench(found: address.Address, sizes: Sizes) -> Report:
    """Measures in a tenant of its own and clears it afterwards."""
    async with Hasten.connect(found.nats, tenant=f"bench-{secrets.token_hex(4)}") as hasten:
        probes = Probes(hasten)
        before = await loop.samples(found.http) if found.http else None
        async with probes.ready(found.nats):
            try:
                seen = await measure(probes, sizes, say)
                say("measuring how soon a change takes effect")
                fresh = await freshened(hasten.bus, hasten.tenant, sizes.semantic)
            finally:
                await hasten.invalidate(Invalidate(everything=True, reason="the benchmark has ended"))
        after = await loop.samples(found.http) if found.http else None
    lag: dict[str, Any] = {}
    if before and after:
        lag = {"loop_samples": after[0] - before[0], "loop_late": after[1] - before[1]}
    return Report(figures=[*figures(seen), *freshness_figures(fresh, seen.bare)], **lag)


def show(report: Report) -> None:
    """Prints the table for people."""
    table = Table("", "p50 ms", "p99 ms", "samples", "beside", "ratio", "budget", "met", box=None)
    for row in report.figures:
        beside = "" if row.baseline_ms is None else f"{row.baseline} {row.baseline_ms:g} ms"
        ratio = "" if row.ratio is None else f"{row.ratio:g}"
        met = {None: "", True: "yes", False: "NO"}[row.met]
        cells = (row.what, f"{row.p50_ms:g}", f"{row.p99_ms:g}", str(row.samples), beside, ratio, row.budget, met)
        table.add_row(*cells)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    console.print(table)
    if report.loop_samples:
        late = f"{report.loop_late} of {report.loop_samples} wake-ups of the event loop"
        console.print(f"{late} were more than 20 ms late (budget: never)")
