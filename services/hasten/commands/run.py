"""`hasten run`: one service as its own process, which is how hasten runs in production."""

from pathlib import Path
from typing import Annotated

import typer

from hasten.commands.options import Config, Nats
from hasten.run import Options, launch


def run(
    service: Annotated[
        str, typer.Argument(help="gateway, orchestrator, embedder, cache, retriever, router, compressor or worker.")
    ],
    nats: Nats = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder for what the service keeps. Else HASTEN_DATA, .hasten."),
    ] = None,
    config: Config = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which model of the table a worker runs. Else the first.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Expose metrics for Prometheus. Else HASTEN_METRICS.")
    ] = None,
) -> None:
    """Run one service until SIGTERM or Ctrl-C, which drains it."""
    raise typer.Exit(launch(service, Options(nats=nats, data=data, config=config, model=model, metrics=metrics)))
