"""What keys and tenants have used up: agreed on by all gateways, kept when gateways, entries or buckets are lost."""

import asyncio
import contextlib
from typing import Any

import pytest
from nats.js.kv import KeyValue
from rates_rig import unhurried
from scripted_edge import eventually

from hasten.bus import Bus
from hasten.caller import Caller, Limits
from hasten.gateway.account import Account
from hasten.gateway.allowance import Amount
from hasten.gateway.rates import BUCKET, Rates
from hasten.messages.failure import Failed
from hasten.nats_server import NatsServer

__all__ = ["unhurried"]
pytestmark = pytest.mark.usefixtures("unhurried")


class Minute:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ms = 1_796_040_000_000.0

    def __call__(self) -> float:
        return self.now_ms


@pytest.mark.parametrize("limit", [1, 10, 64, 1000])
async def test_replicas_are_wrong_by_a_sixteenth_each_at_most(nats_server: NatsServer, limit: int) -> None:
    clock, buses = Minute(), [await Bus.connect(nats_server.url) for _ in range(3)]
    replicas = [Rates(bus, clock=clock) for bus in buses]
    caller = Caller(tenant="acme", key_id="k", limits=Limits(requests_per_minute=limit))
    let_in = 0

    async def ask(rates: Rates) -> None:
        nonlocal let_in
        with contextlib.suppress(Failed):
            await rates.admit(caller, {})
            let_in += 1

    await asyncio.gather(*(ask(rates) for _ in range(limit) for rates in replicas))
    assert limit <= let_in <= limit * (1 + len(replicas) / 16)
    for rates in replicas:
        with pytest.raises(Failed, match="rate_limit_exceeded"):
            await rates.admit(caller, {})
    clock.now_ms += 60_000
    await ask(replicas[0])
    await settled(replicas)
    late = Rates(buses[0], clock=clock)
    scope: dict[str, Any] = {}
    await settled([late])
    with contextlib.suppress(Failed):
        await late.admit(caller, scope)
    remaining = int(scope["hasten.rate_headers"]["x-ratelimit-remaining-requests"])
    assert remaining <= max(0, limit - 1), "one that starts later knows what was used before"
    await settled([*replicas, late])
    for bus in buses:
        await bus.close()


async def settled(replicas: list[Rates]) -> None:
    """Returns when everything that was used up is written."""
    await eventually(lambda: all(account.idle for rates in replicas for account in rates._accounts.values()))


async def test_what_was_spent_outlives_every_gateway(bus: Bus) -> None:
    caller = Caller(tenant="acme", key_id="k", limits=Limits(budget_usd=1))
    rates = Rates(bus)
    grant = await rates.admit(caller, {})
    for account in grant._accounts:
        account.charge(Amount(usd=1))
    await rates.close()
    with pytest.raises(Failed, match="insufficient_quota"):
        await Rates(bus).admit(caller, {})


async def test_a_bucket_that_was_lost_is_made_again_with_what_a_gateway_knows(bus: Bus) -> None:
    rates, caller = Rates(bus), Caller(tenant="acme", key_id="k", limits=Limits(requests_per_minute=4))
    await rates.admit(caller, {})
    await settled([rates])
    await bus.js.delete_stream(f"KV_{BUCKET}")
    for _ in range(3):
        await rates.admit(caller, {})
    await settled([rates])
    with pytest.raises(Failed, match="rate_limit_exceeded"):
        await rates.admit(caller, {})
    other = Rates(bus)
    with pytest.raises(Failed, match="rate_limit_exceeded"):
        await other.admit(caller, {})
    await rates.close()
    await other.close()


async def test_an_entry_that_was_deleted_is_begun_anew_by_every_gateway(bus: Bus) -> None:
    caller = Caller(tenant="acme", key_id="k", limits=Limits(requests_per_minute=4))
    replicas = [Rates(bus, clock=Minute()) for _ in range(2)]
    for _ in range(2):
        for rates in replicas:
            await rates.admit(caller, {})
    await settled(replicas)
    await (await bus.js.key_value(BUCKET)).delete("key.k")
    async with asyncio.timeout(60):
        for rates in [*replicas, *replicas]:
            await admitted(rates, caller)
        await settled(replicas)
    for rates in replicas:
        with pytest.raises(Failed, match="rate_limit_exceeded"):
            await rates.admit(caller, {})
        await rates.close()


async def admitted(rates: Rates, caller: Caller) -> None:
    """Returns when a request was let in: what was read a moment ago may still be believed."""
    while True:
        with contextlib.suppress(Failed):
            await rates.admit(caller, {})
            return
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"[]",
        b'{"at_ms":1e300}',
        b'{"at_ms":-1e300}',
        b'{"requests":-1e9}',
        b'{"tokens":1e300}',
        b'{"day_usd":"x"}',
    ],
)
async def test_an_entry_that_is_none_is_written_anew(bus: Bus, entry: bytes) -> None:
    rates, caller = Rates(bus), Caller(tenant="acme", key_id="k", limits=Limits(requests_per_minute=2))
    bucket = await rates._bucket(True)
    await bucket.put("key.k", entry)
    async with asyncio.timeout(60):
        for _ in range(2):
            await rates.admit(caller, {})
        with pytest.raises(Failed, match="rate_limit_exceeded"):
            await rates.admit(caller, {})
    await rates.close()


async def test_who_goes_before_the_verdict_has_used_nothing(bus: Bus) -> None:
    gate, rates = asyncio.Event(), Rates(bus)

    async def bucket(anew: bool) -> KeyValue:
        await gate.wait()
        return await rates._bucket(anew)

    account, one = Account(bucket, "key.k", Minute()), Amount(requests=1)
    account.limits = Limits(requests_per_minute=1)
    gone = asyncio.ensure_future(account.take(one))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    gate.set()
    await eventually(lambda: account.idle)
    assert await account.take(one) is None
    await account.close()
