"""The options that several commands have, and how a command runs."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from hasten.address import nats_url
from hasten.bus import Unreachable
from hasten.client import Hasten
from hasten.run import run_loop, say
from hasten.settings import SettingsError
from hasten.telemetry import configure_logging

Nats = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="The NATS server. Else HASTEN_NATS, the running `hasten up`, nats://127.0.0.1:4222."
    ),
]
Tenant = Annotated[str, typer.Option(envvar="HASTEN_TENANT", help="On whose behalf.")]
Data = Annotated[
    Path, typer.Option(metavar="DIR", envvar="HASTEN_DATA", help="The folder that holds state and survives a restart.")
]
Config = Annotated[
    Path | None, typer.Option(metavar="FILE", envvar="HASTEN_CONFIG", help="Settings and the model table in TOML.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of text for people.")]
DATA = Path(".hasten")


def with_client(nats: str | None, tenant: str, work: Callable[[Hasten], Awaitable[int]]) -> None:
    """Connects, runs `work` and ends the command with the exit code it returns (2 for what a person can put right)."""

    async def connected() -> int:
        try:
            async with Hasten.connect(nats_url(nats), tenant=tenant) as hasten:
                return await work(hasten)
        except Unreachable as error:
            raise SettingsError(f"{error}; `hasten up` starts one, and --nats or HASTEN_NATS names another") from None

    configure_logging()
    raise typer.Exit(run_loop(connected()))


def refuse(why: str) -> NoReturn:
    """Ends the command with 2 and one sentence, before anything has been done."""
    say(f"hasten: {why}")
    raise typer.Exit(2)
