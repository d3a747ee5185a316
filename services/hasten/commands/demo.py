"""`hasten demo`: the main job on the real system, with a table of what happened."""

import sys
from collections.abc import Callable

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from hasten.client import Hasten
from hasten.commands.options import DATA, Config, Data, Json
from hasten.demo.rows import Row, Step
from hasten.demo.script import CHANGE, ingest, play
from hasten.messages.chat import ChatReply, Chunk
from hasten.run import run_loop, say
from hasten.system import Wanted, system
from hasten.telemetry import configure_logging

SOURCES = {"miss": "model", "exact": "cache, exact", "semantic": "cache, by meaning", "shared": "shared"}


def demo(data: Data = DATA, config: Config = None, as_json: Json = False) -> None:
    """Start the whole system, ask it the questions of a help centre, and show where each answer came from."""
    configure_logging()
    wanted = Wanted(http="127.0.0.1:0", data=data, config=config)
    raise typer.Exit(run_loop(run_demo(wanted, as_json)))


async def run_demo(wanted: Wanted, as_json: bool) -> int:
    """Plays the demo on a system of its own; returns 0, or 1 when a row is not what it should be."""
    async with system(wanted, say) as made:
        try:
            await made.runtime.start(say)
            async with Hasten.connect(made.nats) as hasten:
                say(f"the help centre has {await ingest(hasten)} articles")
                rows = [row async for row in play(hasten, _quiet if as_json else _stream)]
            ok = not any(row.problems for row in rows)
            if as_json:
                print(msgspec.json.encode({"ok": ok, "rows": rows}).decode())
            else:
                _show(rows)
        finally:
            await made.runtime.drain()
            await made.runtime.close()
    return 0 if ok else 1


def _quiet(_: Step) -> Callable[[ChatReply], None]:
    return lambda event: None


def _stream(step: Step) -> Callable[[ChatReply], None]:
    """Prints the question, and the answer as it comes; its line is ended by whatever is printed next."""
    if step.change:
        print(f"\n(an article changes: {CHANGE[0]} becomes {CHANGE[1]})", end="")
    print(f"\n[{step.name}] {step.question}\n  ", end="", flush=True)

    def show(event: ChatReply) -> None:
        if isinstance(event, Chunk):
            sys.stdout.write(event.text)
            sys.stdout.flush()

    return show


def _show(rows: list[Row]) -> None:
    console = Console()
    print("\n")
    console.print(_answers(rows))
    print()
    console.print(_stages(rows))
    for row in rows:
        for problem in row.problems:
            console.print(f"{row.step}: {problem}", style="red", markup=False)
    print(f"the article is as it was: {CHANGE[0].removeprefix('costs ')} again")


def _answers(rows: list[Row]) -> Table:
    table = Table(title="Where the answers came from", title_justify="left")
    for heading in ("question", "answered by"):
        table.add_column(heading, overflow="fold")
    for heading in ("first token", "total", "prompt tokens"):
        table.add_column(heading, justify="right")
    for row in rows:
        source = SOURCES.get(row.source, row.source)
        table.add_row(
            f"{row.step}: {row.question}",
            f"{source}, {row.model}" if row.generations else source,
            f"{row.ttft_ms:.0f} ms",
            f"{row.total_ms:.0f} ms",
            _tokens(row),
        )
    return table


def _tokens(row: Row) -> str:
    """The prompt's tokens before and after compression, and the share that it has saved."""
    if not row.tokens_before:
        return "none"
    return f"{row.tokens_before} → {row.tokens_after} ({row.tokens_after / row.tokens_before - 1:+.0%})"


def _stages(rows: list[Row]) -> Table:
    table = Table(title="Where the time went (ms; stages may overlap)", title_justify="left")
    table.add_column("step")
    stages = list(dict.fromkeys(stage for row in rows for stage, ms in row.stages_ms.items() if ms))
    for stage in stages:
        table.add_column(stage.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(row.step, *(f"{row.stages_ms[stage]:.1f}" if stage in row.stages_ms else "" for stage in stages))
    return table
