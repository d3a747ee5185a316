"""`hasten ingest`: files into a collection, with a bar that moves when they can be found."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hasten.client import Hasten
from hasten.commands.options import Nats, Tenant, with_client
from hasten.loading import SUFFIXES, LoadError, find, load
from hasten.messages.failure import Failed
from hasten.settings import SettingsError
from hasten.topics import checked

PARALLEL = 8
"""Documents on their way at once: enough to keep the embedder busy, few enough to stop soon at Ctrl-C."""


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files, and folders to look for files in.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Where they go.")],
    timeout: Annotated[float, typer.Option(help="Seconds that one document may take.")] = 120.0,
    tenant: Tenant = "demo",
    nats: Nats = None,
) -> None:
    """Index Markdown, text, HTML and PDF files; ends when every one of them can be found."""

    async def work(hasten: Hasten) -> int:
        checked("collection", collection)
        files = files_in(paths)
        refused = await ingest_files(hasten, collection, files, timeout)
        for why in refused:
            Console(stderr=True, highlight=False).print(why, style="red", markup=False, soft_wrap=True)
        print(f"{len(files) - len(refused)} of {len(files)} documents are in {collection}")
        return 1 if refused else 0

    with_client(nats, tenant, work)


def files_in(paths: Sequence[Path]) -> dict[Path, Path | None]:
    """The files to read, each with the folder that it was found in; raises LoadError, and SettingsError for none."""
    files = {file: path if path.is_dir() else None for path in paths for file in find([path])}
    if not files:
        raise SettingsError(f"no {', '.join(sorted(SUFFIXES))} files in {', '.join(map(str, paths))}")
    return files


async def ingest_files(
    hasten: Hasten, collection: str, files: Mapping[Path, Path | None], timeout_s: float
) -> list[str]:
    """Ingests files (each with the folder it was found in), some at a time; returns a sentence for each refused."""
    refused: list[str] = []
    gate = asyncio.Semaphore(PARALLEL)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("ingesting", total=len(files))

        async def one(file: Path, root: Path | None) -> None:
            async with gate:
                try:
                    document = await asyncio.to_thread(load, file, root)
                    await hasten.ingest(collection, document, timeout_s=timeout_s)
                except LoadError as error:
                    refused.append(str(error))
                except Failed as failed:
                    refused.append(f"{file}: {failed.failure.detail}")
                progress.advance(bar)

        await asyncio.gather(*(one(file, root) for file, root in files.items()))
    return refused
