"""`hasten up`: everything in one process."""

import os
from typing import Annotated

import typer

from hasten import address
from hasten.commands.options import DATA, Config, Data
from hasten.run import Stop, run_loop, say, serve
from hasten.system import System, Wanted, system
from hasten.telemetry import configure_logging


def up(
    http: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where the HTTP API listens.")] = None,
    nats: Annotated[str, typer.Option(metavar="embedded|URL", help="The NATS server: our own, or one that runs.")] = (
        "embedded"
    ),
    data: Data = DATA,
    engine: Annotated[
        str, typer.Option(metavar="embedded|sim|openai:URL", help="The models: ours, simulated, or another server's.")
    ] = "embedded",
    config: Config = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="SERVICE", help="Do not start embedder (nor retriever) or cache. Repeatable."),
    ] = None,
) -> None:
    """Start the whole system in one process; Ctrl-C drains it."""
    configure_logging()
    spared = tuple(without or ())
    wanted = Wanted(http=http, nats=nats, data=data, engine=engine, config=config, without=spared)
    raise typer.Exit(run_loop(run_system(wanted)))


async def run_system(wanted: Wanted) -> int:
    """Runs a system until it is told to stop; returns the exit code."""
    async with system(wanted, say) as made:
        with Stop() as stop:
            try:
                return await serve(made.runtime, stop, ready=lambda: announce(made), file=made.file)
            finally:
                address.remove(made.data)


def announce(made: System) -> None:
    """Says where the system is: to people on stderr, to programs on stdout and in the data folder."""
    address.write(made.data, address.Address(nats=made.nats, http=made.http, pid=os.getpid()))
    say(f"API key of the tenant demo: {made.key}")
    say(f"the page: {made.http}/#key={made.key}")
    print(f"ready http={made.http} nats={address.without_secret(made.nats)}", flush=True)
