"""`hasten invalidate`: cached answers that must not be given any more."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from hasten.cache.domain import is_entry_id
from hasten.changes.keys import KEY_HEADERS
from hasten.client import Hasten
from hasten.commands.options import Json, Nats, Tenant, refuse, with_client
from hasten.messages.cache import EventReading, Invalidate, Invalidation, SampleEvent

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
    event: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --dry-run: what this change event (JSON, - for stdin) would remove."),
    ] = None,
    subject: Annotated[str, typer.Option(help="The subject of --event, such as shop.public.prices.")] = "",
    key: Annotated[str, typer.Option(metavar="JSON", help="The key of --event's row, where it has a header.")] = "",
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    tenant: Tenant = "demo",
    nats: Nats = None,
    as_json: Json = False,
) -> None:
    """Remove answers from the cache; returns when no replica serves them any more."""
    if not (tag or document or entry or model or everything or event):
        refuse("say what to invalidate: --tag, --document, --entry, --model or --everything")
    if event and not (dry_run and subject):
        refuse("--event needs --dry-run and --subject: an event is applied by publishing it to its subject")
    if set(subject) & set(" \t*>"):
        refuse("--subject must be the one that the event would be published to, such as shop.public.prices")
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
        event=sample(event, subject, key) if event else None,
    )

    async def work(hasten: Hasten) -> int:
        report(await hasten.invalidate(what), what, as_json)
        return 0

    with_client(nats, tenant, work)


def sample(file: Path, subject: str, key: str) -> SampleEvent:
    """The event in a file; an empty one is a tombstone."""
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        body = msgspec.json.decode(data) if data.strip() else None
    except OSError as error:
        refuse(f"--event {file} cannot be read: {error.strerror}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        refuse(f"--event {file} is not JSON: such an event evicts the table of its subject")
    return SampleEvent(subject=subject, headers={KEY_HEADERS[0]: key} if key else {}, body=body)


def report(done: Invalidation, what: Invalidate, as_json: bool) -> None:
    """Prints how many entries went, or which would."""
    if as_json:
        print(msgspec.json.encode(done).decode())
        return
    console = Console(highlight=False)
    if done.event is not None:
        explain(done.event, console)
    if what.dry_run:
        for entry in done.listed:
            console.print(
                f"entry {entry.entry_id}, {entry.age_s:.0f} s old: {entry.text}", soft_wrap=True, markup=False
            )
            console.print(f"    {' '.join(entry.tags)}", style="dim", soft_wrap=True, markup=False)
        if done.entries > len(done.listed) > 0:
            console.print(f"and {done.entries - len(done.listed):,} more")
    verb = "would be removed" if what.dry_run else f"removed, change {done.sequence}, after {done.waited_ms:.0f} ms"
    console.print(f"{counted(done.entries)} {verb}")


def counted(entries: int) -> str:
    """`1 entry`, `2 entries`."""
    return "1 entry" if entries == 1 else f"{entries} entries"


def explain(event: EventReading, console: Console) -> None:
    """Prints what a change event was taken for, and which tags it evicts and why."""
    table = f" of {event.table}" if event.table else ""
    rules = f", by the rules of {', '.join(event.rules)}" if event.rules else ", no rule"
    console.print(f"read as {event.shape}: {event.op or 'nothing has changed'}{table}{rules if event.op else ''}")
    if event.fault:
        console.print(f"it would be a dead letter: {event.fault}")
    reasons = Table("evicts", "because", box=None)
    for one in event.tags:
        reasons.add_row(one.tag, one.why)
    if event.tags:
        console.print(reasons)
