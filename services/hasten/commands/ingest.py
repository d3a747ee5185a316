"""`hasten ingest`: files into a collection; run again it goes on where it was, and takes only what is new."""

import asyncio
import codecs
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from hasten.client import Hasten
from hasten.commands.ingest_report import Report
from hasten.commands.options import Json, Nats, Tenant, refuse, with_client
from hasten.delivery import Delivery
from hasten.files import File, LoadError, shown, walk
from hasten.loading import SUFFIXES, documents
from hasten.messages.failure import Failed
from hasten.messages.retrieve import Document
from hasten.row_file import Columns
from hasten.settings import SettingsError
from hasten.topics import checked

READ = 32
"""Documents read at a time, in a thread."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to read and how, and what to do beside. `source` None is the folder, or the file, that was named."""

    paths: list[Path]
    columns: Columns = Columns()
    encoding: str | None = None
    source: str | None = None
    prune: bool = False
    dry: bool = False
    again: bool = False
    patience_s: float | None = None

    def source_of(self, file: File) -> str:
        """What is noted as the source of a file's documents."""
        return self.source or shown((file.root or file.path).absolute())


class Piece(msgspec.Struct, frozen=True):
    """Something that was read: a document, why there is none, or (None) the end of a file of so many bytes."""

    place: str
    what: Document | LoadError | None
    size: int = 0


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files, and folders to look for files in.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Where they go.")],
    prune: Annotated[bool, typer.Option("--prune", help="Remove what came from these folders and is gone.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Index unchanged files too: after a change of settings.")
    ] = False,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=NAME",
            help="Of rows: which column is id, title, text, url, tags or metadata; the others are metadata.",
        ),
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Of text that is neither UTF-8 nor UTF-16: latin-1, …")] = None,
    source: Annotated[str | None, typer.Option(help="What --prune knows them by, instead of the path.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Give up when nothing has moved for so many seconds.")] = None,
    json: Json = False,
    tenant: Tenant = "demo",
    nats: Nats = None,
) -> None:
    """Index Markdown, text, HTML, PDF, JSON lines and CSV files; ends when every one of them can be found.

    Exit codes: 0 everything is there, 1 something is not, 2 nothing was begun, 130 interrupted (run it again to go on).
    """
    plan = Plan(
        paths=paths,
        columns=columns_of(column or []),
        encoding=known_encoding(encoding),
        source=source,
        prune=prune,
        dry=dry_run,
        again=again,
        patience_s=timeout,
    )

    async def work(hasten: Hasten) -> int:
        report = Report(checked("collection", collection), dry=plan.dry, json=json)
        return await ingest_files(hasten, plan, report)

    with_client(nats, tenant, work)


def columns_of(given: Sequence[str]) -> Columns:
    """The columns that `--column` names; refuses what is none."""
    named = dict(one.partition("=")[::2] for one in given)
    if wrong := [one for one in named if one not in Columns.__struct_fields__ or not named[one]]:
        refuse(f"--column {wrong[0]} must be {', '.join(Columns.__struct_fields__)} = the name of a column")
    return Columns(**named)


def known_encoding(name: str | None) -> str | None:
    """The encoding if Python has it; refuses it otherwise."""
    try:
        return name and codecs.lookup(name).name
    except LookupError:
        refuse(f"--encoding {name} is not known: latin-1, cp1252, shift_jis, gb18030 and utf-16-le are some")


async def ingest_files(hasten: Hasten, plan: Plan, report: Report) -> int:
    """Reads, delivers, removes what is gone if that is wanted, and says what was done; returns the exit code."""
    try:
        with report.following():
            await _run(hasten, plan, report)
    except asyncio.CancelledError:
        report.end()
        raise
    report.end()
    return 1 if report.wrong else 0


async def _run(hasten: Hasten, plan: Plan, report: Report) -> None:
    """Ends without what could not be done once something has been; raises what kept it from beginning."""
    delivery = Delivery(
        hasten, report.collection, refused=report.refuse, again=plan.again, dry=plan.dry, patience_s=plan.patience_s
    )
    report.delivery = delivery
    counting = asyncio.create_task(asyncio.to_thread(measured, plan.paths))
    counting.add_done_callback(report.measured)
    try:
        sources = await _deliver(plan, delivery, report)
        await delivery.finish()
        if plan.prune:
            await _prune(plan, delivery, report, sources)
    except Failed as failed:
        if not delivery.tally.done:
            raise
        report.say(failed.failure.detail)
    except asyncio.CancelledError:
        report.say("interrupted: the same command goes on from here")
        raise
    finally:
        await delivery.cancel()
        await asyncio.wait({counting})


async def _deliver(plan: Plan, delivery: Delivery, report: Report) -> set[str]:
    """Offers every document that can be read; returns the sources they come from."""
    sources: set[str] = set()
    reading = pieces(plan)
    while some := await asyncio.to_thread(lambda: list(islice(reading, READ))):
        for piece in some:
            if isinstance(piece.what, Document):
                sources.add(piece.what.source)
                await delivery.offer(piece.what, piece.place)
            elif piece.what is None:
                report.read(piece.size)
            else:
                report.unreadable(str(piece.what))
    if not report.files and not report.wrong:
        raise SettingsError(f"no {', '.join(sorted(SUFFIXES))} files in {', '.join(map(shown, plan.paths))}")
    return sources


async def _prune(plan: Plan, delivery: Delivery, report: Report, sources: set[str]) -> None:
    """Removes what is gone of the sources that were read in full."""
    if report.cannot_prune:
        report.say("nothing was removed, because not everything could be read")
        return
    named = {plan.source or shown(path.absolute()) for path in plan.paths}
    for source in sorted(named):
        if source in sources:
            await delivery.prune(source)
        elif any(shown(path.absolute()) == source and path.is_dir() for path in plan.paths):
            report.say(f"nothing was found in {source}, so nothing of it was removed")


def pieces(plan: Plan) -> Iterator[Piece]:
    """Everything that can be read, one after the other."""
    for file in walk(plan.paths, SUFFIXES):
        if isinstance(file, LoadError):
            yield Piece("", file)
            continue
        place, source = shown(file.path), plan.source_of(file)
        for one in documents(file, plan.columns, plan.encoding):
            yield Piece(place, one if isinstance(one, LoadError) else msgspec.structs.replace(one, source=source))
        yield Piece(place, None, file.size)


def measured(paths: Sequence[Path]) -> tuple[int, int]:
    """How many files there are to read, and their bytes."""
    sizes = [0, 0]
    for file in walk(paths, SUFFIXES):
        if isinstance(file, File):
            sizes[0] += 1
            sizes[1] += file.size
    return sizes[0], sizes[1]
