"""The command `hasten`: puts the commands together; each is a module of `hasten.commands`."""

from importlib.metadata import version
from typing import Annotated

import typer

from hasten.commands import (
    ask,
    bench,
    cache,
    demo,
    explain,
    ingest,
    invalidate,
    keys,
    models,
    prompts,
    run,
    status,
    top,
    topics,
    up,
    watch,
)

app = typer.Typer(
    name="hasten",
    help="Answers LLM requests fast: cache, retrieval, routing, compression and inference as services over NATS.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        print(f"hasten {version('hasten')}")
        raise typer.Exit


@app.callback()
def _hasten(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


app.command()(up.up)
app.command()(run.run)
app.command()(ask.ask)
app.command()(explain.explain)
app.command()(ingest.ingest)
app.command()(invalidate.invalidate)
app.command()(status.status)
app.command()(top.top)
app.command()(watch.watch)
app.command()(demo.demo)
app.command()(topics.topics)
app.command()(bench.bench)
app.add_typer(cache.app, name="cache")
app.add_typer(models.app, name="models")
app.add_typer(keys.app, name="keys")
app.add_typer(prompts.app, name="prompts")


def main() -> None:
    """Runs the command line."""
    app()


if __name__ == "__main__":
    main()
