"""POST /v1/chat/completions: refused here if it is the caller's fault, otherwise handed to an exchange."""

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from hasten.bus import Bus
from hasten.gateway.access import caller_of
from hasten.gateway.body import Gone, read_object
from hasten.gateway.domain import ask_of, request_id_of
from hasten.gateway.exchange import Exchange
from hasten.gateway.head import Head
from hasten.gateway.meter import estimated_tokens
from hasten.gateway.rates import Rates
from hasten.gateway.settings import Settings
from hasten.keys import KeyRing
from hasten.messages.failure import Failed
from hasten.topics import random_id

REQUEST_ID = "hasten.request_id"
"""Where an ASGI scope has the id of its request, for the headers of an error."""


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
        headers = Headers(scope=scope)
        scope[REQUEST_ID] = request_id = request_id_of(headers) or random_id()
        caller = caller_of(headers, self._keys)
        limit, timeout_s = self._settings.max_body_bytes, self._settings.read_timeout_s
        try:
            plain = await read_object(headers, receive, limit=limit, timeout_s=timeout_s)
        except Gone:
            return
        ask = ask_of(plain, headers, caller.tenant)
        grant = await self._rates.admit(caller, scope, tokens=estimated_tokens(plain))
        exchange = Exchange(self._bus, self._settings, caller.tenant, ask, Head(request_id, ask.model), grant)
        self._live.add(exchange)
        try:
            await exchange.run(receive, send)
        finally:
            self._live.discard(exchange)
            grant.end()

    def end_all(self) -> None:
        """Ends every chat that is being answered with a failure that its reader sees."""
        for exchange in list(self._live):
            exchange.end(Failed("draining", "the gateway is being stopped", retry_after_ms=1000).failure)
