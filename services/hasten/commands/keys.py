"""`hasten keys`: the API keys of the HTTP edge, and what their tenants may use up."""

from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
import typer
from rich.table import Table

from hasten import keys
from hasten.caller import Limits, duration_s
from hasten.client import Hasten
from hasten.commands.options import Json, Nats, refuse, with_client
from hasten.commands.worker_table import wide_console
from hasten.messages.failure import Failed
from hasten.run import say

app = typer.Typer(help="Make, list and take back the API keys of tenants.", no_args_is_help=True)
Tenant = Annotated[str, typer.Argument(help="The tenant that the key stands for.")]
Requests = Annotated[int, typer.Option("--requests-per-minute", min=0, help="0: as many as there are.")]
Tokens = Annotated[int, typer.Option("--tokens-per-minute", min=0, help="0: as many as there are.")]
Budget = Annotated[
    float, typer.Option("--budget-usd", min=0, help="What its answers may cost by the model table. 0: whatever.")
]
Per = Annotated[Literal["day", "month"], typer.Option("--per", help="What the budget is for; both begin in UTC.")]


@app.command()
def create(
    tenant: Tenant,
    name: Annotated[str, typer.Option("--name", "--label", help="What it is for, to recognise it by.")] = "",
    operator: Annotated[bool, typer.Option("--operator", help="It may also publish changes and reject hits.")] = False,
    requests: Requests = 0,
    tokens: Tokens = 0,
    budget: Budget = 0.0,
    per: Per = "month",
    expires: Annotated[
        str, typer.Option(metavar="30d", help="How long it is valid: a number and s, m, h, d or w.")
    ] = "",
    nats: Nats = None,
) -> None:
    """Make a key and print it; it cannot be shown again."""

    async def work(hasten: Hasten) -> int:
        limits = Limits(requests_per_minute=requests, tokens_per_minute=tokens, budget_usd=budget, budget_per=per)
        expires_s = duration_s(expires) if expires else None
        key = await keys.create(hasten.bus, tenant, name, operator=operator, limits=limits, expires_s=expires_s)
        print(key, flush=True)
        say("keep it: it cannot be shown again")
        return 0

    with_client(nats, tenant, work)


@app.command("limit")
def limit(
    tenant: Annotated[str, typer.Argument(help="Whose keys, all together.")],
    requests: Requests = 0,
    tokens: Tokens = 0,
    budget: Budget = 0.0,
    per: Per = "month",
    none: Annotated[bool, typer.Option("--none", help="Take the limits away.")] = False,
    nats: Nats = None,
) -> None:
    """Set what all keys of a tenant may use up together, instead of what was set; without options, show it."""
    limits = Limits(requests_per_minute=requests, tokens_per_minute=tokens, budget_usd=budget, budget_per=per)
    if none and limits.said:
        refuse("--none takes all limits away: say it alone")

    async def work(hasten: Hasten) -> int:
        if none or limits.said:
            await keys.limit_tenant(hasten.bus, tenant, limits)
            said = limits.said
        else:
            found = (await keys.tenant_limits(hasten.bus)).get(tenant)
            said = found.said if found else ""
        say(f"{tenant}: {said or 'no limits'}")
        return 0

    with_client(nats, tenant, work)


@app.command("list")
def list_keys(nats: Nats = None, as_json: Json = False) -> None:
    """List which keys there are, by the id that `revoke` takes; the keys themselves are kept nowhere."""

    async def work(hasten: Hasten) -> int:
        found, tenants = await keys.listed(hasten.bus), await keys.tenant_limits(hasten.bus)
        if as_json:
            print(msgspec.json.encode({"keys": found, "tenants": tenants}).decode())
            return 0
        table = Table("id", "begins", "tenant", "name", "created", "expires", "limits", box=None)
        for one in found:
            record = one.record
            limits = ", ".join(part for part in ("operator" if record.operator else "", record.limits.said) if part)
            expires = _minute(record.expires_ms) if record.expires_ms else "never"
            table.add_row(
                one.id, record.prefix, record.tenant, record.label, _minute(record.created_ms), expires, limits
            )
        console = wide_console()
        console.print(table)
        for tenant, limits_of in tenants.items():
            console.print(f"all keys of {tenant} together: {limits_of.said}")
        return 0

    with_client(nats, "demo", work)


def _minute(at_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M}Z"
    except (ValueError, OverflowError, OSError):
        return "no date"


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID-OR-KEY", help="The key to refuse from now on, or its id.")],
    nats: Nats = None,
) -> None:
    """Take a key back: every gateway refuses it within a second."""

    async def work(hasten: Hasten) -> int:
        if not await keys.revoke(hasten.bus, key):
            raise Failed("not_found", "there is no such key; `hasten keys list` shows the id of each")
        say("every gateway refuses it within a second")
        return 0

    with_client(nats, "demo", work)
