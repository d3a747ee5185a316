"""A progress bar on stderr: how many requests are due, asked for and answered, and how many have failed."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loadtest.sample import Sample


@contextlib.contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[Sample], None]]:
    """Draws while the block runs; is told each sample. Where stderr is no terminal it draws nothing."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console, failed = Console(stderr=True), 0
    silent = not console.is_terminal
    with Progress(*columns, console=console, transient=True, refresh_per_second=4, disable=silent) as progress:
        task = progress.add_task(what, total=total)

        def told(sample: Sample) -> None:
            nonlocal failed
            failed += not sample.ok
            progress.update(task, advance=1, description=f"{what}, {failed} failed" if failed else what)

        yield told
