"""`hasten keys`: the API keys of the HTTP edge."""

from typing import Annotated

import typer

from hasten import keys
from hasten.client import Hasten
from hasten.commands.options import Nats, with_client
from hasten.messages.failure import Failed

app = typer.Typer(help="Make and take back the API keys of tenants.", no_args_is_help=True)


@app.command()
def create(
    tenant: Annotated[str, typer.Argument(help="The tenant that the key stands for.")],
    label: Annotated[str, typer.Option(help="What it is for, to recognise it by.")] = "",
    nats: Nats = None,
) -> None:
    """Make a key and print it; it cannot be shown again."""

    async def work(hasten: Hasten) -> int:
        print(await keys.create(hasten.bus, tenant, label))
        return 0

    with_client(nats, tenant, work)


@app.command()
def revoke(key: Annotated[str, typer.Argument(help="The key to refuse from now on.")], nats: Nats = None) -> None:
    """Take a key back: every gateway refuses it within a second."""

    async def work(hasten: Hasten) -> int:
        if await keys.tenant_of(hasten.bus, key) is None:
            raise Failed("not_found", "there is no such key")
        await keys.revoke(hasten.bus, key)
        return 0

    with_client(nats, "demo", work)
