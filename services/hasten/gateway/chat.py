"""POST /v1/chat/completions: refused here if it is the caller's fault, otherwise handed to an exchange."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from hasten.bus import Bus
from hasten.gateway.access import caller_of
from hasten.gateway.body import Gone, read_object
from hasten.gateway.domain import Ask, ask_of, request_id_of
from hasten.gateway.exchange import Exchange
from hasten.gateway.head import Head
from hasten.gateway.meter import estimated_tokens
from hasten.gateway.rates import Rates
from hasten.gateway.settings import Settings
from hasten.gateway.sse import ChatWire
from hasten.gateway.wire import Wire
from hasten.keys import KeyRing
from hasten.messages.failure import Failed
from hasten.topics import random_id

REQUEST_ID = "hasten.request_id"
"""Where an ASGI scope has the id of its request, for the headers of an error."""


class Prepared(msgspec.Struct, frozen=True):
    """A request that is no fault of its caller: what is asked, what will be known of the answer, and its form."""

    ask: Ask
    head: Head
    wire: Wire


Prepare = Callable[[dict[str, Any], Mapping[str, str], str, str, int], Prepared]
"""Makes of a body, the headers, the tenant, the request's id and the time what is asked; raises Failed."""


class Chat:
    """The endpoint, as an ASGI application. Faults of the caller are answered before anything goes to the bus."""

    def __init__(self, bus: Bus, settings: Settings, keys: KeyRing, rates: Rates) -> None:
        self._bus, self._settings, self._keys, self._rates = bus, settings, keys, rates
        self._live: set[Exchange] = set()

    @property
    def live(self) -> int:
        """Chats being answered."""
        return len(self._live)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; raises Failed while nothing has been sent."""
        await self.answer(scope, receive, send, self._prepared)

    async def answer(self, scope: Scope, receive: Receive, send: Send, prepare: Prepare) -> None:
        """The same for any API whose requests can be asked as a chat."""
        headers = Headers(scope=scope)
        scope[REQUEST_ID] = request_id = request_id_of(headers) or random_id()
        caller = caller_of(headers, self._keys)
        limit, timeout_s = self._settings.max_body_bytes, self._settings.read_timeout_s
        try:
            plain = await read_object(headers, receive, limit=limit, timeout_s=timeout_s)
        except Gone:
            return
        made = prepare(plain, headers, caller.tenant, request_id, int(time.time()))
        grant = await self._rates.admit(caller, scope, tokens=estimated_tokens(plain))
        exchange = Exchange(self._bus, self._settings, caller.tenant, made.ask, made.head, made.wire, grant)
        self._live.add(exchange)
        try:
            await exchange.run(receive, send)
        finally:
            self._live.discard(exchange)
            grant.end()

    def _prepared(
        self, plain: dict[str, Any], headers: Mapping[str, str], tenant: str, request_id: str, now_s: int
    ) -> Prepared:
        ask = ask_of(plain, headers, tenant, most=self._settings.max_choices)
        head = Head(request_id, ask.model)
        return Prepared(ask, head, ChatWire(head, now_s, include_usage=ask.include_usage))

    def end_all(self) -> None:
        """Ends every chat that is being answered with a failure that its reader sees."""
        for exchange in list(self._live):
            exchange.end(Failed("draining", "the gateway is being stopped", retry_after_ms=1000).failure)
