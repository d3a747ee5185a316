"""What the models cost, as a router says: asked for when it is needed, and again once a minute."""

import asyncio

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.gateway.meter import Price
from hasten.messages.route import MODELS, ModelInfo, ModelList, Models

AGAIN_S = 60.0
TIMEOUT_S = 2.0


class Prices:
    """`known` has the price of every model by its names; empty until a router has answered."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.known: dict[str, Price] = {}
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    async def fetched(self, tenant: str) -> None:
        """Returns at once when there are prices, and has them asked for again where they are old; else waits for the
        first ones, or until no router has answered."""
        loop = asyncio.get_running_loop()
        if self._asking is None and loop.time() - self._asked_at > AGAIN_S:
            self._asked_at = loop.time()
            self._asking = loop.create_task(self._ask(tenant))
        if not self.known and self._asking is not None:
            await asyncio.shield(self._asking)

    async def _ask(self, tenant: str) -> None:
        try:
            found = await self._bus.request(MODELS, Models(), deadline_ms=now_ms() + TIMEOUT_S * 1000, tenant=tenant)
            if isinstance(found, ModelList):
                self.known = {name: price_of(model) for model in found.models for name in (model.name, *model.aliases)}
        finally:
            if not self.known:
                self._asked_at = float("-inf")
            self._asking = None


def price_of(model: ModelInfo) -> Price:
    """The price in a row of the model table."""
    return Price(prompt=model.cost_per_1k_prompt, completion=model.cost_per_1k_completion)
