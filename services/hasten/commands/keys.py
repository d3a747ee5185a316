"""`hasten keys`: the API keys of the HTTP edge."""

from datetime import datetime
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from hasten import keys
from hasten.client import Hasten
from hasten.commands.options import Json, Nats, with_client
from hasten.messages.failure import Failed
from hasten.run import say

app = typer.Typer(help="Make, list and take back the API keys of tenants.", no_args_is_help=True)


@app.command()
def create(
    tenant: Annotated[str, typer.Argument(help="The tenant that the key stands for.")],
    label: Annotated[str, typer.Option(help="What it is for, to recognise it by.")] = "",
    nats: Nats = None,
) -> None:
    """Make a key and print it; it cannot be shown again."""

    async def work(hasten: Hasten) -> int:
        print(await keys.create(hasten.bus, tenant, label), flush=True)
        say("keep it: it cannot be shown again")
        return 0

    with_client(nats, tenant, work)


@app.command("list")
def list_keys(nats: Nats = None, as_json: Json = False) -> None:
    """List whose keys there are; the keys themselves are kept nowhere."""

    async def work(hasten: Hasten) -> int:
        found = await keys.records(hasten.bus)
        if as_json:
            print(msgspec.json.encode(found).decode())
            return 0
        table = Table("tenant", "label", "created", box=None)
        for one in found:
            table.add_row(one.tenant, one.label, f"{datetime.fromtimestamp(one.created_ms / 1000):%Y-%m-%d %H:%M}")
        Console(highlight=False, markup=False).print(table)
        return 0

    with_client(nats, "demo", work)


@app.command()
def revoke(key: Annotated[str, typer.Argument(help="The key to refuse from now on.")], nats: Nats = None) -> None:
    """Take a key back: every gateway refuses it within a second."""

    async def work(hasten: Hasten) -> int:
        if await keys.tenant_of(hasten.bus, key) is None:
            raise Failed("not_found", "there is no such key")
        await keys.revoke(hasten.bus, key)
        return 0

    with_client(nats, "demo", work)
