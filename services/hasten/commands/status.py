"""`hasten status`: what runs, how busy it is, and how often the cache answered."""

from collections import Counter
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from hasten.address import nats_url, without_secret
from hasten.client import Hasten
from hasten.commands.diagnosis import NEEDED, Problem, problems
from hasten.commands.models import problems_of, table_of
from hasten.commands.options import Json, Nats, Tenant, refuse, with_client
from hasten.commands.worker_table import wide_console, worker_table
from hasten.discovery import Running
from hasten.messages.failure import Failed
from hasten.messages.route import ModelInfo

QUEUES = ("queued", "waiting_texts", "lag")
"""What services call the work that waits, in their reports: requests, texts, stream messages."""
LABELS = {
    "hit_rate": "hit rate of all lookups",
    "hit_rate_alarm": "hit rate by meaning has jumped",
    "mean_hit_age_s": "mean age of a hit (s)",
    "evictions": "evicted to make room",
    "hot_entries": "entries in memory",
    "hot_bytes": "bytes in memory",
    "lag": "messages not applied yet",
    "applied": "applied up to message",
    "wordless": "passages not found by words yet",
    "pending": "requests not read yet",
    "rerank": "reranks with",
}
"""What the figures of cache and retriever are called for people, where their own name says too little."""
IN_EVERY_REPORT = ("active", "draining", "outstanding", "subscriptions", "tasks")
"""The table of services has these already."""


def status(
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="SERVICE", help="A service that is not meant to be there; may be repeated."),
    ] = None,
    tenant: Tenant = "demo",
    nats: Nats = None,
    as_json: Json = False,
) -> None:
    """Show what runs, how busy it is, what is wrong and what to do; exits with 1 if something is missing."""
    if unknown := set(without or []) - set(NEEDED):
        refuse(f"there is no service {', '.join(sorted(unknown))}; there are {', '.join(NEEDED)}")

    async def work(hasten: Hasten) -> int:
        services = await hasten.services()
        models, url = await models_of(hasten), without_secret(nats_url(nats))
        found = problems(services, models, url, without or [])
        if as_json:
            print(msgspec.json.encode({"services": services, "models": models, "problems": found}).decode())
        else:
            show(wide_console(), url, services, models, found)
        return int(any(one.level == "missing" for one in found))

    with_client(nats, tenant, work)


async def models_of(hasten: Hasten) -> list[ModelInfo]:
    """The models with their figures, none when no router runs."""
    try:
        return await hasten.models(timeout_s=2.0)
    except Failed:
        return []


def show(
    console: Console, url: str, services: list[Running], models: list[ModelInfo], found: list[Problem] | None = None
) -> None:
    """Prints the tables for people."""
    if not services:
        console.print(
            f"no service answers at {url}: is `hasten up` or `hasten run` running, and on this server?", soft_wrap=True
        )
        console.print("another one is named with --nats or HASTEN_NATS")
        return
    console.print(f"NATS: {url}")
    _section(console, "Services", _services(services))
    if models:
        _section(console, "Models", table_of(models))
    if any(model.each for model in models):
        _section(console, "Workers", worker_table(models))
    _tell(console, found or [])
    for problem in problems_of([one.report for one in services if one.name == "router"]):
        console.print(f"\n{problem}", soft_wrap=True, markup=False)
    if answers := answers_of(services):
        _section(console, "Answers", _answers(answers))
    for running in services:
        if running.name in ("cache", "retriever"):
            _section(console, f"{running.name.title()} {running.id[:8]}", _figures(running.report))


def _tell(console: Console, found: list[Problem]) -> None:
    if not found:
        console.print("\nNothing is missing.")
        return
    console.print("\nWhat is wrong", style="bold")
    for one in found:
        console.print(f"{one.level}: {one.what}", style="red" if one.level == "missing" else "yellow", soft_wrap=True)
        console.print(f"  {one.means}", soft_wrap=True)
        console.print(f"  do: {one.do}", soft_wrap=True)


def answers_of(services: list[Running]) -> Counter[str]:
    """How the requests of all orchestrators ended: by source of the answer, or by code of the failure."""
    counts = Counter[str]()
    for one in services:
        if one.name == "orchestrator":
            counts.update(one.report.get("answers", {}))
    return counts


def _answers(counts: Counter[str]) -> Table:
    table = Table("ended as", "requests", "share", box=None)
    for source, count in counts.most_common():
        table.add_row(source, str(count), f"{count / counts.total():.1%}")
    return table


def _section(console: Console, heading: str, table: Table) -> None:
    console.print(f"\n{heading}", style="bold")
    console.print(table)


def _services(services: list[Running]) -> Table:
    table = Table("service", "version", "replica", "active", "queued", "requests", "errors", "state", box=None)
    for one in services:
        report = one.report
        requests, errors = (sum(row.get(name, 0) for row in one.endpoints) for name in ("num_requests", "num_errors"))
        state = "draining" if report.get("draining") else str(report.get("state", "ready"))
        queued = next((str(report[name]) for name in QUEUES if name in report), "")
        name = f"{one.name} {report['model']}" if one.name == "worker" and "model" in report else one.name
        load = (str(report.get("active", "")), queued, str(requests), str(errors))
        table.add_row(name, one.version, one.id[:8], *load, state)
    return table


def _figures(report: dict[str, Any]) -> Table:
    table = Table("figure", "value", box=None)
    for name, value in flat({name: value for name, value in report.items() if name not in IN_EVERY_REPORT}):
        if value in ("", []):
            continue
        label = LABELS.get(name, name.replace("_", " "))
        table.add_row(label, f"{value:.3f}" if isinstance(value, float) else str(value))
    return table


def flat(report: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """The figures of a report, nested ones with their path as name."""
    found: list[tuple[str, Any]] = []
    for name, value in report.items():
        found += flat(value, f"{prefix}{name}: ") if isinstance(value, dict) else [(f"{prefix}{name}", value)]
    return found
