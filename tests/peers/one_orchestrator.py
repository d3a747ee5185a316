"""One orchestrator and a client of it, as fixtures, and the question that they are asked."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from replica_rig import ASK, events_of, patient
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.messages.chat import CHAT
from hasten.nats_server import NatsServer
from hasten.orchestrator.service import Orchestrator, build
from hasten.orchestrator.settings import Settings

WITH_KNOWLEDGE = {**ASK, "knowledge": ["sea"]}


@pytest_asyncio.fixture
async def orchestrator(bus: Bus, peers: Scripted) -> AsyncIterator[Orchestrator]:
    made = patient(build(Settings(exact_wait_ms=20, silence_s=2.5, recent_s=60, again_s=0), bus))
    await made.start()
    yield made
    await made.drain()
    await made.close()


@pytest_asyncio.fixture
async def client(nats_server: NatsServer) -> AsyncIterator[Bus]:
    made = await Bus.connect(nats_server.url, name="client")
    yield made
    await made.close()


async def ask(client: Bus, body: dict[str, Any] = ASK, tenant: str = "acme", **options: Any) -> list[Any]:
    return await events_of(await client.stream(CHAT, body, tenant=tenant, **options))


async def hang(_: Any) -> None:
    """A worker that hears a request and never says anything."""
