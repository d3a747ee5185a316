"""The orchestrator and the cache together, both real, with scripted stages around them and a tenant who asks."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from cache_rig import until
from indexed_words import DIM, HashedWords
from replica_rig import CLAIM_S, patient
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.cache.service import Cache
from hasten.cache.settings import Settings as CacheSettings
from hasten.client import Hasten
from hasten.codec import decode
from hasten.messages.cache import CACHE_LOOKUP, CACHE_PUT
from hasten.messages.chat import FINISHED, Finished
from hasten.messages.embed import EMBED
from hasten.nats_server import NatsServer
from hasten.orchestrator.service import build
from hasten.orchestrator.settings import Settings
from hasten.vectors.store import VectorStore

QUESTION = "How long is the return period for brown shoes?"
SAME = "how long is the return period for brown shoes"
OTHER = "How long is the return period for brown boots?"


class Rig:
    """The two services, a tenant, and what was announced."""

    def __init__(self, hasten: Hasten, peers: Scripted, cache: Cache) -> None:
        self.hasten, self.peers, self.cache = hasten, peers, cache
        self.finished: list[Finished] = []

    async def ask(self, prompt: Any, **options: Any) -> Any:
        """Asks, and waits until the end of the request has been announced."""
        answered = await self.hasten.ask(prompt, **options)

        async def told() -> bool:
            return any(event.request_id == answered.request_id for event in self.finished)

        await until(told)
        return answered

    async def stored(self, prompt: Any, **options: Any) -> Any:
        """Asks what is generated and waits until it is stored."""
        before = self.cache.report()["puts"].get("stored", 0)
        answered = await self.ask(prompt, **options)
        assert answered.cache == "miss"

        async def there() -> bool:
            return bool(self.cache.report()["puts"].get("stored", 0) > before)

        await until(there)
        return answered


@pytest_asyncio.fixture
async def rig(bus: Bus, nats_server: NatsServer, vectors: VectorStore) -> AsyncIterator[Rig]:
    peers = Scripted(bus, real=(CACHE_LOOKUP, CACHE_PUT, EMBED))
    embedder = HashedWords(bus)
    cache = Cache(CacheSettings(dim=DIM, sweep_s=60, store_tool_calls=True, thresholds={"strict": 1.0}), bus, vectors)
    orchestrator = patient(build(Settings(exact_wait_ms=50, recent_s=60, again_s=0), bus))
    cache._freshness._lease_s = CLAIM_S
    for service in (peers, embedder, cache, orchestrator):
        await service.start()
    async with Hasten.connect(nats_server.url, tenant="acme") as hasten:
        made = Rig(hasten, peers, cache)

        async def hear(msg: Any) -> None:
            made.finished.append(decode(Finished, msg.data))

        await hasten.bus.subscribe(FINISHED.pattern, hear)
        await hasten.bus.flush()
        yield made
    await orchestrator.drain()
    await orchestrator.close()
    await cache.drain()
    for closing in (cache, embedder, peers):
        await closing.close()
