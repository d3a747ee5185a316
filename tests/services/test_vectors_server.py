"""What is particular to a Qdrant server: collections that others made, replicas that start at once, and outages."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from qdrant_front import QdrantFront, listening

from hasten.topics import BadName
from hasten.vectors.edge import EdgeStore
from hasten.vectors.opening import store
from hasten.vectors.server import ServerStore
from hasten.vectors.store import IndexKind, Point, StoreError, Where

DIM = 8
INDEXES: dict[str, IndexKind] = {"tenant": "keyword", "n": "integer", "price": "float", "live": "bool"}
NOWHERE = Path("/nonexistent")


@pytest.fixture
def front() -> QdrantFront:
    """The stand-in for a server."""
    return QdrantFront()


@pytest_asyncio.fixture
async def url(front: QdrantFront) -> AsyncIterator[str]:
    """Its address."""
    async with listening(front) as address:
        yield address


def some(count: int) -> list[Point]:
    """Points of tenant a, one per dimension and again."""
    rows = np.eye(DIM, dtype=np.float32)
    return [
        Point(id=str(uuid.UUID(int=at)), vector=rows[at % DIM], payload={"tenant": "a", "n": at}) for at in range(count)
    ]


async def test_two_replicas_share_a_collection(url: str) -> None:
    one, other = store(url, NOWHERE, "answers"), store(url, NOWHERE, "answers")
    made = await asyncio.gather(one.open(DIM, INDEXES), other.open(DIM, INDEXES))
    assert {field for fields in made for field in fields} == set(INDEXES)
    await one.upsert(some(600))
    assert await other.count() == 600
    assert await other.delete(where=Where(above={"n": 99})) == 500
    assert await one.count() == 100
    await one.close()
    await other.close()


async def test_indexes_are_made_for_a_collection_that_exists(url: str, front: QdrantFront) -> None:
    old, new = store(url, NOWHERE, "answers"), store(url, NOWHERE, "answers")
    assert await old.open(DIM, {"tenant": "keyword"}) == ["tenant"]
    assert await new.open(DIM, INDEXES) == ["n", "price", "live"]
    assert await new.open(DIM, INDEXES) == []
    kinds = {field: index["type"] for field, index in front.indexes["answers"].items()}
    assert kinds == {"tenant": "keyword", "n": "integer", "price": "float", "live": "bool"}
    assert front.indexes["answers"]["tenant"]["is_tenant"] is True
    assert "is_tenant" not in front.indexes["answers"]["n"]
    assert front.graphs["answers"] == {"m": 0, "payload_m": 16}
    assert front.quantization["answers"] == {"scalar": {"type": "int8", "quantile": 0.99, "always_ram": True}}
    await old.close()
    await new.close()


async def test_another_width_is_refused_at_the_start_with_both_sizes(url: str) -> None:
    first, wrong = store(url, NOWHERE, "answers"), store(url, NOWHERE, "answers")
    await first.open(DIM, INDEXES)
    with pytest.raises(StoreError, match=r"answers has 8 dimensions where 768"):
        await wrong.open(768, INDEXES)
    await first.close()
    await wrong.close()


async def test_a_search_compares_again_by_whole_vectors(url: str, front: QdrantFront) -> None:
    made = store(url, NOWHERE, "answers")
    await made.open(DIM, INDEXES)
    vector = some(1)[0].vector
    assert vector is not None
    await made.search(vector, Where(equal={"tenant": "a"}), 3)
    await made.search(vector, Where(), 3)
    assert [search["quantization"] for search in front.searches] == [{"rescore": True, "oversampling": 3.0}] * 2
    assert [search.get("exact", False) for search in front.searches] == [False, True]
    await made.close()


async def test_writes_wait_until_they_are_applied(url: str, front: QdrantFront) -> None:
    made = store(url, NOWHERE, "answers")
    await made.open(DIM, INDEXES)
    await made.upsert(some(3))
    await made.set_payload([some(1)[0].id], {"extra": 1})
    await made.delete(ids=[some(1)[0].id], where=Where(equal={"n": 1}))
    assert await made.count() == 1
    assert front.unconfirmed == []
    await made.close()


async def test_an_outage_is_a_store_error(front: QdrantFront) -> None:
    async with listening(front) as address:
        made = store(address, NOWHERE, "answers")
        await made.open(DIM, INDEXES)
        await made.upsert(some(2))
    vector = some(1)[0].vector
    assert vector is not None
    for attempt in (made.count(), made.upsert(some(1)), made.search(vector, Where(), 1), made.delete(where=Where())):
        with pytest.raises(StoreError, match="could not"):
            await attempt
    await made.close()


async def test_the_address_chooses_the_adapter(tmp_path: Path) -> None:
    made = [store(address, tmp_path, "answers") for address in ("", "embedded", ":memory:", "https://qdrant:6333")]
    assert [type(one) for one in made] == [EdgeStore, EdgeStore, ServerStore, ServerStore]
    for one in made:
        await one.close()
    for address in ("qdrant:6333", "ftp://qdrant", "Embedded"):
        with pytest.raises(StoreError, match="http"):
            store(address, tmp_path, "answers")
    for name in ("", "../etc", "A", "a.b"):
        with pytest.raises(BadName):
            store("embedded", tmp_path, name)
