"""The workers of all models as a table: which share of the requests each gets, how fast it is, and whether it fails."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from hasten.messages.route import ModelInfo, WorkerInfo

WIDTH = 140
"""What the widest of these tables takes. A narrower terminal breaks the lines, which keeps every figure and heading."""


def wide_console() -> Console:
    """Where tables of models and workers are printed without being cut."""
    console = Console(highlight=False, markup=False)
    console.width = max(WIDTH, console.width)
    return console


def worker_table(models: Sequence[ModelInfo]) -> Table:
    """A row for each worker that the routers hear of."""
    columns = ("worker", "state", "slots", "busy", "in line", "requests", "share", "prompt", "answer", "breaker")
    table = Table("model", *columns, box=None)
    for model in models:
        total = sum(one.sent for one in model.each)
        for one in model.each:
            table.add_row(model.name, *_cells(one, total))
    return table


def _cells(one: WorkerInfo, total: int) -> tuple[str, ...]:
    prompt = f"{1000 / one.token_ms:.0f} tok/s" if one.token_ms else "-"
    answer = f"{one.answer_ms:.0f} ms" if one.answer_ms else "-"
    return (
        one.name,
        "ready" if one.ready else "not ready",
        str(one.slots),
        str(one.in_flight - one.waiting),
        str(one.waiting),
        str(one.sent),
        f"{one.sent / total:.1%}" if total else "-",
        prompt,
        answer,
        one.breaker.replace("_", " "),
    )
