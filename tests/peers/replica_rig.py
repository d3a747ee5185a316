"""Orchestrator replicas, each on a connection of its own, before scripted peers; a request can be sent to one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import cache_rig
import pytest
import pytest_asyncio
from patience import until
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.cache.service import Cache
from hasten.deadline import TENANT
from hasten.messages.cache import CACHE_LOOKUP, CACHE_PUT
from hasten.messages.chat import CHAT, Chunk, Note, Ping
from hasten.messages.follow import FOLLOW, Follow
from hasten.nats_server import NatsServer
from hasten.orchestrator import relay
from hasten.orchestrator.lease import BUCKET
from hasten.orchestrator.service import Orchestrator, build
from hasten.orchestrator.settings import Settings
from hasten.vectors.opening import store
from loadtest.staleness.cable import Cable

CLAIM_S = 20.0
"""However busy the machine is, a bucket that is there counts as there, and changes that are read as known."""
ASK = {"messages": [{"role": "user", "content": "When does the tide rise?"}]}


def patient(orchestrator: Orchestrator) -> Orchestrator:
    """One that takes a machine which stands still for a while for nothing worse."""
    orchestrator._leases._claim_s = orchestrator._freshness._lease_s = CLAIM_S
    return orchestrator


@contextlib.asynccontextmanager
async def serving(bus: Bus, settings: Settings) -> AsyncIterator[Orchestrator]:
    """A patient one that serves until the end of the block, and then finishes what it has accepted."""
    made = patient(build(settings, bus))
    await made.start()
    try:
        yield made
    finally:
        await made.drain()
        await made.close()


class Replica:
    """One orchestrator and its connection."""

    def __init__(self, bus: Bus, settings: Settings) -> None:
        self.bus, self.unit = bus, patient(build(settings, bus))
        self.dead = False

    @property
    def leases(self) -> dict[str, int]:
        """What became of its leases."""
        return self.unit.report()["leases"]  # type: ignore[no-any-return]

    @property
    def followers(self) -> int:
        """How many have begun to read along with what it leads; who is about to is counted by its own `leases`."""
        return sum(call.topic is FOLLOW and call.sent_at > 0 for call in self.unit.service.requests.calls.values())

    @property
    def hears(self) -> bool:
        """Whether it hears new requests."""
        return any(one.subject == CHAT.pattern for one in self.unit.service._hearing)

    async def hear(self, yes: bool) -> None:
        """Lets it hear new requests, or leaves them to the others; what was sent to it before is still heard."""
        service = self.unit.service
        if yes and not self.hears:
            chat = next(one for one in service._heard if one.topic is CHAT)
            made = await self.bus.hear(chat.subject, service.requests.receiver(chat), queue="orchestrator")
            service._hearing.append(made)
        elif not yes and self.hears:
            chats = [one for one in service._hearing if one.subject == CHAT.pattern]
            service._hearing.remove(chats[0])
            await chats[0].drain()  # type: ignore[no-untyped-call]
        await self.bus.flush()

    async def settled(self) -> None:
        """Returns when its flights have ended and their leases are free: the end of a flight begins the release a turn
        later."""
        await until(lambda: not self.unit._flights.all)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await self.unit._leases.close()

    async def die(self) -> None:
        """Takes its connection away, as the end of its process would, and then whatever it was at."""
        self.dead = True
        await self.bus._client.abandon()
        for task in list(self.unit.service.requests._tasks):
            task.cancel()


class Replicas:
    """Replicas of one system; `client` asks them."""

    def __init__(self, server: NatsServer, client: Bus, settings: Settings) -> None:
        self._server, self.client, self.settings = server, client, settings
        self._cables = contextlib.AsyncExitStack()
        self.all: list[Replica] = []

    async def cable(self) -> Cable:
        """A network of its own for a replica."""
        return await self._cables.enter_async_context(Cable(self._server.port))

    async def add(self, cable: Cable | None = None) -> Replica:
        """One more, which hears requests."""
        made = Replica(await Bus.connect((cable or self._server).url), self.settings)
        self.all.append(made)
        await made.unit.start()
        return made

    async def only(self, chosen: Replica) -> None:
        """Lets only this one hear requests."""
        for replica in self.all:
            if not replica.dead:
                await replica.hear(replica is chosen)

    async def stream(self, replica: Replica, body: dict[str, Any] = ASK, tenant: str = "acme", **options: Any) -> Any:
        """The stream of a request to this replica."""
        await self.only(replica)
        stream = await self.client.stream(CHAT, body, tenant=tenant, **options)
        await self.client.flush()
        return stream

    async def ask(
        self, replica: Replica, body: dict[str, Any] = ASK, tenant: str = "acme", **options: Any
    ) -> list[Any]:
        """The events of a request to this replica, without pings."""
        return await events_of(await self.stream(replica, body, tenant, **options))

    async def forgotten(self, replica: Replica) -> None:
        """Returns when the server knows that a replica has died, and says so to whoever asks it."""
        to: dict[str, Any] = {"replica": replica.unit.service.id, "headers": {TENANT: "acme"}}
        while True:
            stream = await self.client.stream(FOLLOW, Follow(key="none"), idle_s=0.05, **to)
            if (await events_of(stream))[-1].code == "unavailable":
                return

    async def sequence(self) -> int:
        """How much has been written to the bucket of leases."""
        return (await self.client.js.stream_info(f"KV_{BUCKET}")).state.last_seq

    async def close(self) -> None:
        for replica in self.all:
            if not replica.dead:
                await replica.unit.drain()
            with contextlib.suppress(Exception):
                await replica.unit.close()
            await replica.bus.close()
        await self._cables.aclose()


class Gate:
    """Holds a scripted worker before the chunk `at` of every generation, until it is opened."""

    def __init__(self, peers: Scripted, at: int = 0) -> None:
        self._at, self._open = at, asyncio.Event()
        peers.broken = {"w1": self._pass}

    async def _pass(self, seq: int, _: Any) -> None:
        if seq == self._at:
            await self._open.wait()

    def open(self) -> None:
        """Lets everything through from now on."""
        self._open.set()


async def events_of(stream: Any) -> list[Any]:
    """All the events of a stream without pings."""
    return [event async for event in stream if not isinstance(event, Ping)]


async def first_chunk(stream: Any) -> Chunk:
    """Reads a stream up to its first chunk."""
    async for event in stream:
        if isinstance(event, Chunk):
            return event
    raise AssertionError("the stream has ended")


def text(events: list[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, Chunk))


def notes(events: list[Any]) -> dict[str, Any]:
    return {event.kind: event.data for event in events if isinstance(event, Note)}


@pytest.fixture
def loyal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No follower takes a leader that is slow for a lost one, however busy the machine is."""
    monkeypatch.setattr(relay, "SILENCE_S", 20.0)


@pytest_asyncio.fixture
async def peers(bus: Bus) -> AsyncIterator[Scripted]:
    made = Scripted(bus)
    await made.start()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def replicas(nats_server: NatsServer, peers: Scripted) -> AsyncIterator[Replicas]:
    client = await Bus.connect(nats_server.url, name="client")
    made = Replicas(nats_server, client, Settings(exact_wait_ms=20, silence_s=20, again_s=0))
    yield made
    await made.close()
    await client.close()


@pytest_asyncio.fixture
async def half_scripted(bus: Bus) -> AsyncIterator[Scripted]:
    """Scripted peers but for the cache."""
    made = Scripted(bus, real=(CACHE_LOOKUP, CACHE_PUT))
    await made.start()
    yield made
    await made.close()


def caching(bus: Bus, folder: Path, **settings: Any) -> contextlib.AbstractAsyncContextManager[Cache]:
    """A real cache for vectors of the scripted width."""
    return cache_rig.running(bus, store(":memory:", folder, "cache"), dim=1, **settings)


@contextlib.asynccontextmanager
async def running(server: NatsServer, count: int, **settings: Any) -> AsyncIterator[Replicas]:
    client = await Bus.connect(server.url)
    made = Replicas(server, client, Settings(**{"exact_wait_ms": 20, "again_s": 0, **settings}))
    try:
        for _ in range(count):
            await made.add()
        yield made
    finally:
        await made.close()
        await client.close()
