"""`hasten invalidate`: cached answers that must not be given any more."""

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from hasten.cache.domain import is_entry_id
from hasten.client import Hasten
from hasten.commands.options import Json, Nats, Tenant, refuse, with_client
from hasten.messages.cache import Invalidate, Invalidation

Names = list[str] | None


def invalidate(
    tag: Annotated[Names, typer.Option(help="Answers that depended on this tag, such as prices:7.")] = None,
    document: Annotated[Names, typer.Option(help="Answers made from this document: COLLECTION/ID.")] = None,
    entry: Annotated[Names, typer.Option(help="The entry with this id.")] = None,
    model: Annotated[Names, typer.Option(help="Answers of this model.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All answers of the tenant.")] = False,
    reject: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The question that --entry wrongly answered.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go.")] = False,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    tenant: Tenant = "demo",
    nats: Nats = None,
    as_json: Json = False,
) -> None:
    """Remove answers from the cache; returns when no replica serves them any more."""
    if not (tag or document or entry or model or everything):
        refuse("say what to invalidate: --tag, --document, --entry, --model or --everything")
    for one in document or []:
        if not all(one.partition("/")):
            refuse(f"--document must be COLLECTION/ID, such as help/fees, not {one!r}")
    for one in entry or []:
        if not is_entry_id(one):
            refuse(f"--entry must be the id of an entry, as `hasten ask` and --dry-run show it, not {one!r}")
    what = Invalidate(
        tags=tag or [],
        documents=document or [],
        entries=entry or [],
        models=model or [],
        everything=everything,
        reject=reject,
        dry_run=dry_run,
        reason=reason,
    )

    async def work(hasten: Hasten) -> int:
        report(await hasten.invalidate(what), what, as_json)
        return 0

    with_client(nats, tenant, work)


def report(done: Invalidation, what: Invalidate, as_json: bool) -> None:
    """Prints how many entries went, or which would."""
    if as_json:
        print(msgspec.json.encode(done).decode())
        return
    console = Console(highlight=False)
    if what.dry_run:
        table = Table("entry", "question", "tags", "age", box=None)
        table.columns[0].no_wrap = True
        table.columns[2].overflow = "fold"
        for entry in done.listed:
            table.add_row(entry.entry_id, entry.text, " ".join(entry.tags), f"{entry.age_s:.0f} s")
        console.print(table)
    verb = "would be removed" if what.dry_run else f"removed, change {done.sequence}, after {done.waited_ms:.0f} ms"
    console.print(f"{done.entries} entries {verb}")
