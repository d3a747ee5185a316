"""pytest fixtures with a real nats-server, for our tests and for those of third-party services."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from hasten.bus import Bus
from hasten.nats_server import NatsServer


@pytest_asyncio.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    """A nats-server of this test alone, on a free port."""
    server = await NatsServer(tmp_path / "jetstream").start()
    yield server
    await server.stop(kill=True)


@pytest_asyncio.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    """A connection to that server."""
    made = await Bus.connect(nats_server.url, name="test")
    yield made
    await made.close()
