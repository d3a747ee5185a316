"""What every vector store must do with terms: sparse vectors that are searched beside the dense ones."""

import math
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from qdrant_front import QdrantFront, listening
from store_rig import Made, make

from hasten.vectors.opening import store
from hasten.vectors.store import IndexKind, Match, Point, StoreError, Terms, VectorStore, Where

DIM = 4
INDEXES: dict[str, IndexKind] = {"tenant": "keyword", "collection": "keyword", "n": "integer"}
__all__ = ["make"]
NEVER = 4_294_967_295


@pytest_asyncio.fixture
async def opened(make: Made) -> AsyncIterator[VectorStore]:
    """An open, empty store that takes terms."""
    made = make()
    assert set(await made.open(DIM, INDEXES, terms=True)) == {*INDEXES, "terms"}
    yield made
    await made.close()


def terms(**weights: float) -> Terms:
    """Terms t1, t2, … with these weights."""
    numbers = {int(name[1:]): weight for name, weight in weights.items()}
    return Terms(np.array(list(numbers), dtype=np.uint32), np.array(list(numbers.values()), dtype=np.float32))


def some(*ids: int) -> Terms:
    """Terms that all weigh 1."""
    return Terms(np.array(ids, dtype=np.uint32), np.ones(len(ids), dtype=np.float32))


def point(given: Terms | None, *, dense: bool = True, **payload: Any) -> Point:
    """A new point with terms."""
    vector = np.array([1, 0, 0, 0], dtype=np.float32) if dense else None
    return Point(id=str(uuid.uuid4()), vector=vector, terms=given, payload=payload)


def rarity(total: int, having: int) -> float:
    """BM25's inverse document frequency, which is never negative."""
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


def of(tenant: str) -> Where:
    """Everything of a tenant."""
    return Where(equal={"tenant": tenant})


async def asked(opened: VectorStore, given: Terms, where: Where, limit: int = 10) -> list[Match]:
    """The matches of a search that counts in what it searches."""
    return await opened.search_terms(given, where, where, limit)


async def test_a_score_is_the_product_of_weights_and_rarity(opened: VectorStore) -> None:
    await opened.upsert(
        [
            point(terms(t1=2, t2=0.5), n=1, tenant="a"),
            point(terms(t1=1), n=2, tenant="a"),
            point(terms(t4=1), n=3, tenant="a"),
            point(None, n=4, tenant="a"),
        ]
    )
    found = await asked(opened, terms(t1=3, t2=1, t9=1), of("a"))
    assert [match.payload["n"] for match in found] == [1, 2]
    both = 2 * 3 * rarity(3, 2) + 0.5 * rarity(3, 1)
    assert [match.score for match in found] == pytest.approx([both, 3 * rarity(3, 2)], rel=1e-5)


async def test_what_others_wrote_changes_no_score(opened: VectorStore) -> None:
    await opened.upsert([point(some(1, 2), n=1, tenant="a"), point(some(2, 3), n=2, tenant="a")])
    before = await asked(opened, some(1, 2, 3), of("a"))
    others = [point(some(1, 3, number), n=9, tenant="b") for number in range(10, 200)]
    await opened.upsert(others)
    assert await asked(opened, some(1, 2, 3), of("a")) == before
    await opened.delete(ids=[one.id for one in others])
    assert await asked(opened, some(1, 2, 3), of("a")) == before


async def test_what_was_deleted_or_replaced_counts_no_more(opened: VectorStore) -> None:
    one, two, gone = (point(some(1), n=n, tenant="a") for n in (1, 2, 3))
    await opened.upsert([one, two, gone])
    await opened.delete(ids=[gone.id])
    await opened.upsert([Point(id=two.id, terms=some(7), payload={"n": 2, "tenant": "a"})])
    (match,) = await asked(opened, some(1), of("a"))
    assert match.score == pytest.approx(rarity(2, 1), rel=1e-5)
    await opened.optimize()
    (match,) = await asked(opened, some(1), of("a"))
    assert match.score == pytest.approx(rarity(2, 1), rel=1e-5)


async def test_the_corpus_can_be_wider_than_what_is_searched(opened: VectorStore) -> None:
    await opened.upsert([point(some(1), n=n, tenant="a") for n in range(4)])
    (match,) = await opened.search_terms(some(1), Where(equal={"tenant": "a", "n": 2}), of("a"), 10)
    assert match.payload["n"] == 2
    assert match.score == pytest.approx(rarity(4, 4), rel=1e-5)


async def test_the_limit_is_filled_though_every_match_ranks_low(opened: VectorStore) -> None:
    near = [point(some(1, 2, 3), n=0, tenant="a", collection="x") for _ in range(1200)]
    far = [point(some(1, 99), n=1, tenant="a", collection="rare") for _ in range(7)]
    await opened.upsert([*near, *far])
    where = Where(equal={"tenant": "a", "collection": "rare"})
    found = await opened.search_terms(some(1, 2, 3), where, of("a"), 5)
    assert [match.payload["n"] for match in found] == [1] * 5


async def test_no_point_of_another_tenant_is_found_however_well_it_matches(opened: VectorStore) -> None:
    await opened.upsert([point(some(1, 2, 3), n=9, tenant="b") for _ in range(50)])
    await opened.upsert([point(some(3), n=1, tenant="a")])
    for _ in range(2):
        found = await asked(opened, some(1, 2, 3), of("a"), 100)
        assert [match.payload["n"] for match in found] == [1]
        await opened.optimize()


async def test_points_with_either_kind_of_vector_are_found_by_it_alone(opened: VectorStore) -> None:
    await opened.upsert([point(some(1), n=1, dense=False), point(None, n=2), point(some(1), n=3)])
    assert {match.payload["n"] for match in await asked(opened, some(1), Where())} == {1, 3}
    dense = await opened.search(np.array([1, 0, 0, 0], dtype=np.float32), Where(), 10)
    assert {match.payload["n"] for match in dense} == {2, 3}


async def test_a_question_without_known_terms_finds_nothing(opened: VectorStore) -> None:
    await opened.upsert([point(some(1), n=1)])
    assert await asked(opened, some(NEVER), Where()) == []
    assert await asked(opened, some(), Where()) == []
    assert await asked(opened, some(1), Where(), 0) == []
    assert await asked(opened, some(1), Where(equal={"tenant": []})) == []


async def test_terms_are_replaced_in_points_that_exist_and_nothing_else(opened: VectorStore) -> None:
    one = point(some(1), n=1)
    await opened.upsert([one])
    await opened.set_terms({one.id: some(2, 3), str(uuid.uuid4()): some(2)})
    assert await asked(opened, some(1), Where()) == []
    (match,) = await asked(opened, some(2), Where())
    assert match.payload == {"n": 1}
    (read,) = await opened.scroll(Where(), 5, vectors=True)
    assert read.vector == pytest.approx([1, 0, 0, 0])
    assert read.terms is not None
    assert read.terms.ids.tolist() == [2, 3]
    assert await opened.count() == 1


async def test_what_is_no_sparse_vector_is_refused_before_anything_is_written(opened: VectorStore) -> None:
    numbers = np.array([1, 1], dtype=np.uint32)
    weights = np.ones(2, dtype=np.float32)
    refused = [
        Terms(numbers, weights),
        Terms(numbers[:1], weights),
        Terms(numbers[:1].astype(np.int64), weights[:1]),
        Terms(numbers[:1], np.array([np.nan], dtype=np.float32)),
    ]
    for wrong in refused:
        with pytest.raises(StoreError, match="terms"):
            await opened.upsert([point(some(1), n=1), point(wrong, n=2)])
        with pytest.raises(StoreError, match="terms"):
            await asked(opened, wrong, Where())
        with pytest.raises(StoreError, match="terms"):
            await opened.set_terms({str(uuid.uuid4()): wrong})
    assert await opened.count() == 0


async def test_a_collection_opened_without_terms_takes_none(make: Made) -> None:
    made = make()
    assert "terms" not in await made.open(DIM, INDEXES)
    for attempt in (made.upsert([point(some(1))]), made.set_terms({str(uuid.uuid4()): some(1)})):
        with pytest.raises(StoreError, match="without terms"):
            await attempt
    with pytest.raises(StoreError, match="without terms"):
        await asked(made, some(1), Where())
    await made.close()


@pytest.mark.parametrize("optimised", [False, True])
async def test_terms_are_added_to_a_collection_from_before_them(tmp_path: Path, optimised: bool) -> None:
    old = store("embedded", tmp_path, "things")
    await old.open(DIM, INDEXES)
    one = point(None, n=1, tenant="a")
    await old.upsert([one, *(point(None, n=2, tenant="a") for _ in range(300))])
    if optimised:
        await old.optimize()
    await old.close()
    await _mended(store("embedded", tmp_path, "things"), one.id)
    again = store("embedded", tmp_path, "things")
    assert await again.open(DIM, INDEXES, terms=True) == []
    assert len(await asked(again, some(5), of("a"))) == 1
    await again.close()
    without = store("embedded", tmp_path, "things")
    assert await without.open(DIM, INDEXES) == []
    assert await without.count() == 302
    await without.close()


async def test_terms_are_added_to_a_servers_collection_from_before_them(tmp_path: Path) -> None:
    async with listening(QdrantFront()) as url:
        old = store(url, tmp_path, "things")
        await old.open(DIM, INDEXES)
        one = point(None, n=1, tenant="a")
        await old.upsert([one])
        await _mended(store(url, tmp_path, "things"), one.id)
        await old.close()


async def _mended(made: VectorStore, id_: str) -> None:
    assert await made.open(DIM, INDEXES, terms=True) == ["terms"]
    assert await asked(made, some(5), of("a")) == []
    await made.set_terms({id_: some(5)})
    await made.upsert([point(some(6), n=3, tenant="a")])
    (match,) = await asked(made, some(5), of("a"))
    assert match.id == id_
    assert match.score == pytest.approx(rarity(2, 1), rel=1e-5)
    await made.close()


async def test_terms_survive_a_compaction_and_what_was_written_meanwhile(tmp_path: Path) -> None:
    made = store("embedded", tmp_path, "things")
    await made.open(DIM, INDEXES, terms=True)
    points = [point(some(1, 10 + number), n=number, tenant="a") for number in range(500)]
    await made.upsert(points)
    await made.set_terms({points[0].id: some(7)})
    await made.optimize()
    await made.set_terms({points[1].id: some(7)})
    await made.close()
    again = store("embedded", tmp_path, "things")
    await again.open(DIM, INDEXES, terms=True)
    assert {match.payload["n"] for match in await asked(again, some(7), of("a"))} == {0, 1}
    assert [match.payload["n"] for match in await asked(again, some(42), of("a"))] == [32]
    assert len(await asked(again, some(1), of("a"), 1000)) == 498
    await again.close()


async def test_a_server_that_counts_in_all_tenants_is_refused(tmp_path: Path) -> None:
    front = QdrantFront()
    front.version = "1.18.4"
    async with listening(front) as url:
        made = store(url, tmp_path, "things")
        with pytest.raises(StoreError, match=r"1\.19 or later.*1\.18\.4"):
            await made.open(DIM, INDEXES, terms=True)
        await made.open(DIM, INDEXES)
        await made.close()
