"""Vector stores of each kind that the conformance suites are run on."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from qdrant_front import QdrantFront, listening

from hasten.vectors.opening import store
from hasten.vectors.store import VectorStore

Made = Callable[[], VectorStore]


@pytest_asyncio.fixture(params=["embedded", ":memory:", "http"])
async def make(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Made]:
    """Makes stores of one kind on one collection."""
    if request.param == "http":
        async with listening(QdrantFront()) as url:
            yield lambda: store(url, tmp_path, "things")
    else:
        yield lambda: store(request.param, tmp_path, "things")
