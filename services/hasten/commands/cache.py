"""`hasten cache`: putting right what the cache answered wrongly."""

from typing import Annotated

import msgspec
import typer
from rich.console import Console

from hasten.client import Hasten
from hasten.commands.calibrate import calibrate
from hasten.commands.options import Json, Nats, Tenant, refuse, with_client
from hasten.topics import BadName, checked

app = typer.Typer(help="Judge the cache's answers.", no_args_is_help=True)


@app.command()
def reject(
    request_id: Annotated[str, typer.Argument(help="The request that was answered wrongly by meaning.")],
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    tenant: Tenant = "demo",
    nats: Nats = None,
    as_json: Json = False,
) -> None:
    """Remove the entry that wrongly answered a request; it never answers that question again."""
    try:
        checked("the request id", request_id)
    except BadName as error:
        refuse(f"{error}; `hasten ask` shows it, and the header x-hasten-request-id")

    async def work(hasten: Hasten) -> int:
        done = await hasten.reject(request_id, reason=reason)
        if as_json:
            print(msgspec.json.encode(done).decode())
        else:
            gone = "the entry is gone" if done.entries else "the entry was gone already"
            after = f"change {done.sequence}, after {done.waited_ms:.0f} ms"
            Console(highlight=False).print(f"{gone} and the pair is remembered, {after}")
        return 0

    with_client(nats, tenant, work)


app.command()(calibrate)
