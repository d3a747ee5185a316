"""Every test of the bus may start services that belong to no one else."""

from collections.abc import AsyncIterator

import pytest_asyncio
from small_talk import Company

from hasten.bus import Bus


@pytest_asyncio.fixture
async def company(bus: Bus) -> AsyncIterator[Company]:
    """Services of this test."""
    made = Company(bus)
    yield made
    await made.leave()
