"""Who may ask now: rates and budgets of keys and tenants, the headers that tell of them, and the charge at the end."""

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import nats.errors
import nats.js.errors
from nats.js.api import KeyValueConfig
from nats.js.kv import KeyValue

from hasten.bus import Bus
from hasten.caller import Caller, Limits
from hasten.deadline import now_ms
from hasten.gateway.account import Account
from hasten.gateway.allowance import NOTHING, Amount, Lack, Share, shares, shown_duration
from hasten.gateway.choices import Chosen
from hasten.gateway.meter import Meter, Price
from hasten.gateway.prices import Prices
from hasten.messages.chat import Chunk
from hasten.messages.failure import Failed, Failure
from hasten.telemetry import counter

BUCKET = "hasten_spent"
HEADERS = "hasten.rate_headers"
"""Where an ASGI scope has the headers about rates, for whatever response it gets."""
_refused = counter(
    "gateway_refused_total", "Requests that were refused for a limit, by what there was too little of", "what"
)


class Grant:
    """A request that was let in: `see` the events of its answer, and `end` it, which charges what it really cost."""

    def __init__(self, accounts: list[Account], reserved: Amount, meter: Meter, prices: Prices) -> None:
        self._accounts, self._reserved, self._prices = accounts, reserved, prices
        self.meter = meter
        self._ended = False

    def see(self, event: Any) -> None:
        """Takes in an event of the answer."""
        if self._accounts and not isinstance(event, Chosen):
            self.meter.see(event)
        elif self._accounts and isinstance(event.event, Chunk):
            self.meter.see(event.event)

    def end(self, *, tokens: int | None = None) -> None:
        """Charges what was used instead of what was expected; `tokens` where there was no answer of events. Once."""
        if self._ended or not self._accounts:
            return
        self._ended = True
        used = self.meter.amount(self._prices.known) if tokens is None else Amount(tokens=tokens)
        for account in self._accounts:
            account.charge(used - Amount(tokens=self._reserved.tokens))


class Rates:
    """The accounts of one gateway. A caller without limits has none, and costs nothing here."""

    def __init__(self, bus: Bus, *, clock: Callable[[], float] = now_ms) -> None:
        self._bus, self._clock = bus, clock
        self._accounts: dict[str, Account] = {}
        self._made: KeyValue | None = None
        self._prices = Prices(bus)

    async def admit(self, caller: Caller, scope: MutableMapping[str, Any], *, tokens: int = 0) -> Grant:
        """Lets one request in that may use so many tokens; the headers about it are put into the scope.

        Raises Failed(rate_limit_exceeded | insufficient_quota).
        """
        held = await self._held(caller)
        amount, taken = Amount(requests=1, tokens=tokens), list[Account]()
        try:
            for _, account in held:
                if (lack := await account.take(amount)) is not None:
                    raise _refusal(lack)
                taken.append(account)
        except BaseException:
            for account in taken:
                account.charge(NOTHING - amount)
            raise
        finally:
            scope[HEADERS] = _headers([shares(account.spent, limits) for limits, account in held])
        return Grant(taken, amount, Meter(tokens), self._prices)

    @property
    def prices(self) -> Mapping[str, Price]:
        """What the models cost, as far as that is known."""
        return self._prices.known

    async def resumed(self, caller: Caller, scope: MutableMapping[str, Any], meter: Meter) -> Grant:
        """The same for an answer that was begun before and is gone on with: it was let in then."""
        held = await self._held(caller)
        scope[HEADERS] = _headers([shares(account.spent, limits) for limits, account in held])
        return Grant([account for _, account in held], NOTHING, meter, self._prices)

    async def _held(self, caller: Caller) -> list[tuple[Limits, Account]]:
        held = [(limits, self._account(name, limits)) for name, limits in _scopes(caller) if limits != Limits()]
        if any(limits.budget_usd for limits, _ in held):
            await self._prices.fetched(caller.tenant)
        return held

    def _account(self, name: str, limits: Limits) -> Account:
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = Account(self._bucket, name, self._clock)
        account.limits = limits
        return account

    async def _bucket(self, anew: bool) -> KeyValue:
        if self._made is None or anew:
            try:
                self._made = await self._bus.js.key_value(BUCKET)
            except nats.js.errors.BucketNotFoundError:
                self._made = await self._bus.js.create_key_value(KeyValueConfig(bucket=BUCKET, history=1))
        return self._made

    async def close(self) -> None:
        """Writes what was used up and not written yet."""
        with contextlib.suppress(nats.errors.Error):
            await asyncio.gather(*(account.close() for account in self._accounts.values()))


def _scopes(caller: Caller) -> tuple[tuple[str, Limits], tuple[str, Limits]]:
    return (f"key.{caller.key_id}", caller.limits), (f"tenant.{caller.tenant}", caller.tenant_limits)


def _refusal(lack: Lack) -> Failed:
    _refused.labels(lack.what).inc()
    wait_ms = None if lack.wait_ms is None else max(1, math.ceil(lack.wait_ms))
    if lack.what == "budget":
        detail = f"the budget of ${lack.limit:g} is used up"
        return Failed.of(Failure(code="insufficient_quota", detail=detail, retry_after_ms=wait_ms))
    said = f"the limit of {lack.limit:g} {lack.what} per minute"
    if wait_ms is None:
        detail = f"this request may need {lack.asked:g} {lack.what} and can never fit into {said}"
    else:
        used = f"{math.ceil(lack.used)} used, {lack.asked:g} asked for"
        detail = f"{said} is reached: {used}; it fits in {shown_duration(wait_ms)}"
    return Failed.of(Failure(code="rate_limit_exceeded", detail=detail, retry_after_ms=wait_ms))


def _headers(all_shares: list[dict[str, Share]]) -> dict[str, str]:
    """OpenAI's headers, about the limit of which the least remains."""
    found: dict[str, str] = {}
    for what in ("requests", "tokens"):
        here = [one[what] for one in all_shares if what in one]
        if here:
            least = min(here, key=lambda share: share.remaining)
            found[f"x-ratelimit-limit-{what}"] = str(least.limit)
            found[f"x-ratelimit-remaining-{what}"] = str(least.remaining)
            found[f"x-ratelimit-reset-{what}"] = shown_duration(least.reset_ms)
    return found
