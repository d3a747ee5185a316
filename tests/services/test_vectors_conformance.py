"""What every vector store must do: Qdrant's engine in a process of its own, and the client of a server.

The client is tried in its local mode and over HTTP, against a stand-in for the server.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from store_rig import Made, make

from hasten.vectors.store import IndexKind, Point, Scalar, StoreError, Vector, VectorStore, Where

DIM = 8
INDEXES: dict[str, IndexKind] = {
    "tenant": "keyword",
    "partition": "keyword",
    "tags": "keyword",
    "seq": "integer",
    "score": "float",
    "live": "bool",
}
__all__ = ["make"]


@pytest_asyncio.fixture
async def opened(make: Made) -> AsyncIterator[VectorStore]:
    """An open, empty store."""
    made = make()
    await made.open(DIM, INDEXES)
    yield made
    await made.close()


def unit(*values: float) -> Vector:
    """A unit vector that begins with these values."""
    vector = np.zeros(DIM, dtype=np.float32)
    vector[: len(values)] = values
    made: Vector = vector / np.linalg.norm(vector)
    return made


def at(degrees: float) -> Vector:
    """A unit vector at this angle to unit(1)."""
    return unit(np.cos(np.radians(degrees)), np.sin(np.radians(degrees)))


def point(degrees: float | None = 0, **payload: Any) -> Point:
    """A new point at an angle, or without a vector."""
    return Point(id=str(uuid.uuid4()), vector=None if degrees is None else at(degrees), payload=payload)


async def found(opened: VectorStore, where: Where, limit: int = 10) -> list[Any]:
    """The field `n` of what a search along unit(1) finds."""
    return [match.payload["n"] for match in await opened.search(unit(1), where, limit)]


async def test_a_point_comes_back_with_its_payload(opened: VectorStore) -> None:
    payload = {"tenant": "acme", "tags": ["a:1", "b:2"], "seq": 7, "score": 0.5, "live": True, "deep": {"x": [1, None]}}
    one = Point(id=str(uuid.uuid4()), vector=at(60), payload=payload)
    await opened.upsert([one])
    (match,) = await opened.search(unit(1), Where(), 5)
    assert (match.id, match.payload) == (one.id, payload)
    assert match.score == pytest.approx(0.5, abs=1e-5)
    (read,) = await opened.get([one.id, str(uuid.uuid4())])
    assert (read.id, read.payload, read.vector) == (one.id, payload, None)


async def test_a_search_is_ordered_and_limited(opened: VectorStore) -> None:
    await opened.upsert([point(degrees, n=degrees) for degrees in (50, 10, 70, 30, 90)])
    assert await found(opened, Where()) == [10, 30, 50, 70, 90]
    assert await found(opened, Where(), 2) == [10, 30]
    assert await found(opened, Where(), 0) == []


async def test_an_upsert_replaces_vector_and_payload_whole(opened: VectorStore) -> None:
    one = point(0, n=1, old="gone")
    await opened.upsert([one])
    await opened.upsert([Point(id=one.id, vector=at(90), payload={"n": 2})])
    (match,) = await opened.search(unit(1), Where(), 5)
    assert match.payload == {"n": 2}
    assert match.score == pytest.approx(0, abs=1e-5)
    assert await opened.count() == 1


FILTERED: list[tuple[Where, set[int]]] = [
    (Where(), {1, 2, 3, 4}),
    (Where(equal={"tenant": "a"}), {1, 2}),
    (Where(equal={"tenant": "a", "partition": "q"}), {2}),
    (Where(equal={"tenant": ["a", "b"]}), {1, 2, 3}),
    (Where(equal={"tenant": ["a"]}), {1, 2}),
    (Where(equal={"tenant": []}), set()),
    (Where(equal={"tags": "x:1"}), {1, 3}),
    (Where(equal={"tags": ["x:1", "y:2"]}), {1, 2, 3}),
    (Where(equal={"tags": "x"}), set()),
    (Where(equal={"seq": 3}), {3}),
    (Where(equal={"seq": [1, 4, 99]}), {1, 4}),
    (Where(equal={"live": True}), {1, 3}),
    (Where(equal={"live": False}), {2}),
    (Where(equal={"live": [True, False]}), {1, 2, 3}),
    (Where(equal={"score": 0.25}), {2}),
    (Where(equal={"seq": [1, "2"]}), {1}),
    (Where(unequal={"tenant": "a"}), {3, 4}),
    (Where(unequal={"tenant": ["a", "b"]}), {4}),
    (Where(unequal={"tags": "x:1"}), {2, 4}),
    (Where(unequal={"tags": []}), {1, 2, 3, 4}),
    (Where(equal={"tenant": "a"}, unequal={"partition": "q"}), {1}),
    (Where(above={"seq": 2}), {3, 4}),
    (Where(below={"seq": 2}), {1}),
    (Where(above={"seq": 1}, below={"seq": 4}), {2, 3}),
    (Where(above={"score": 0.25}), {1, 3}),
    (Where(below={"score": 1e12}), {1, 2, 3}),
    (Where(equal={"tenant": "a' OR 1=1"}), set()),
    (Where(equal={"absent": "x"}), set()),
]


async def test_a_filter_means_the_same_everywhere(opened: VectorStore) -> None:
    points = [
        point(10, n=1, tenant="a", partition="p", tags=["x:1", "z:9"], seq=1, score=0.5, live=True),
        point(20, n=2, tenant="a", partition="q", tags=["y:2"], seq=2, score=0.25, live=False),
        point(30, n=3, tenant="b", partition="q", tags=["x:1"], seq=3, score=1e9, live=True),
        point(40, n=4, tenant="c", seq=4),
    ]
    for where, expected in FILTERED:
        await opened.upsert(points)
        assert set(await found(opened, where)) == expected, where
        assert {read.payload["n"] for read in await opened.scroll(where, 10)} == expected, where
        assert await opened.count(where) == len(expected), where
        assert await opened.delete(where=where) == len(expected), where
        assert {read.payload["n"] for read in await opened.scroll(Where(), 10)} == {1, 2, 3, 4} - expected, where


async def test_the_limit_is_filled_though_every_match_ranks_low(opened: VectorStore) -> None:
    far = [point(80 + number / 10, n="far", tenant="b", tags=["rare"]) for number in range(50)]
    near = [point(number / 100, n="near", tenant="a", tags=["common"]) for number in range(2000)]
    await opened.upsert([*near, *far])
    assert await found(opened, Where(equal={"tags": "rare"}), 5) == ["far"] * 5
    assert await found(opened, Where(equal={"tenant": "b", "tags": "rare"}), 50) == ["far"] * 50


async def test_no_point_of_another_tenant_is_found_however_near(opened: VectorStore) -> None:
    await opened.upsert([point(0, n=tenant, tenant=tenant) for tenant in "abcdefgh" for _ in range(20)])
    await opened.upsert([point(89, n="mine", tenant="mine")])
    assert await found(opened, Where(equal={"tenant": "mine"}), 100) == ["mine"]


async def test_points_without_vectors_are_kept_and_never_found(opened: VectorStore) -> None:
    bare = point(None, n="bare", tenant="a")
    await opened.upsert([bare, point(95, n="with", tenant="a")])
    assert await found(opened, Where(equal={"tenant": "a"})) == ["with"]
    assert await found(opened, Where()) == ["with"]
    assert await opened.count(Where(equal={"tenant": "a"})) == 2
    assert [read.payload["n"] for read in await opened.get([bare.id])] == ["bare"]
    read = {read.payload["n"]: read.vector for read in await opened.scroll(Where(), 10, vectors=True)}
    assert read["bare"] is None
    assert read["with"] == pytest.approx(at(95), abs=1e-5)
    assert await opened.delete(ids=[bare.id]) == 1


async def test_changing_what_was_given_or_returned_changes_nothing(opened: VectorStore) -> None:
    payload: dict[str, Any] = {"text": "original", "tags": ["a"]}
    one = Point(id=str(uuid.uuid4()), vector=unit(1), payload=payload)
    await opened.upsert([one])
    payload["tags"].append("b")
    reads = [read.payload for read in await opened.search(unit(1), Where(), 5)]
    reads += [read.payload for read in (*await opened.get([one.id]), *await opened.scroll(Where(), 5))]
    assert reads == [{"text": "original", "tags": ["a"]}] * 3
    for read in reads:
        read["text"] = "changed"
        read["tags"].append("c")
    (match,) = await opened.search(unit(1), Where(), 5)
    assert match.payload == {"text": "original", "tags": ["a"]}


async def test_set_payload_merges_into_those_that_exist(opened: VectorStore) -> None:
    one, other = point(0, n=1, hits=1), point(10, n=2)
    await opened.upsert([one, other])
    await opened.set_payload([one.id, str(uuid.uuid4())], {"hits": 2, "tags": ["new"]})
    await opened.set_payload([], {"hits": 3})
    assert [read.payload for read in await opened.get([one.id])] == [{"n": 1, "hits": 2, "tags": ["new"]}]
    assert [read.payload for read in await opened.get([other.id])] == [{"n": 2}]
    assert await found(opened, Where(equal={"tags": "new"})) == [1]
    assert await opened.count() == 2


async def test_delete_counts_what_was_there(opened: VectorStore) -> None:
    points = [point(number, n=number, tags=["t:1"] if number < 150 else []) for number in range(200)]
    await opened.upsert(points)
    ids = [one.id for one in points]
    assert await opened.delete(ids=[]) == 0
    assert await opened.delete(ids=[str(uuid.uuid4()), *ids[:70]]) == 70
    assert await opened.delete(ids=ids[:70]) == 0
    assert await opened.delete(where=Where(equal={"tags": "t:1"})) == 80
    assert await opened.delete(ids=ids[150:160], where=Where(equal={"n": 199})) == 11
    assert await opened.count() == 39
    assert await opened.delete(where=Where()) == 39
    assert await opened.count() == 0


async def test_scroll_is_limited(opened: VectorStore) -> None:
    await opened.upsert([point(number, n=number) for number in range(30)])
    assert len(await opened.scroll(Where(), 7)) == 7
    assert len(await opened.scroll(Where(above={"n": 24.5}), 100)) == 5
    assert await opened.scroll(Where(), 0) == []


async def test_scroll_brings_the_fields_that_are_wanted(opened: VectorStore) -> None:
    await opened.upsert([point(0, n=1, text="long", tags=["a"])])
    for fields, payload in ((["n", "tags"], {"n": 1, "tags": ["a"]}), ([], {}), (["absent"], {})):
        assert [read.payload for read in await opened.scroll(Where(), 5, fields)] == [payload]


async def test_a_vector_of_another_width_is_refused_with_both_sizes(opened: VectorStore) -> None:
    for width in (0, 4, 768):
        wrong = np.ones(width, dtype=np.float32)
        for attempt in (
            opened.upsert([point(0, n=1), Point(id=str(uuid.uuid4()), vector=wrong)]),
            opened.search(wrong, Where(), 5),
        ):
            with pytest.raises(StoreError, match=f"{width}.*{DIM}"):
                await attempt
    assert await opened.count() == 0


async def test_what_cannot_be_stored_is_refused_in_one_sentence_without_data(opened: VectorStore) -> None:
    refused = [
        Point(id=str(uuid.uuid4()), vector=np.full(DIM, np.nan, dtype=np.float32)),
        Point(id="secret-not-a-uuid", vector=unit(1)),
        Point(id=str(uuid.uuid4()), vector=unit(1), payload={"secret": object()}),
    ]
    for one in refused:
        with pytest.raises(StoreError) as error:
            await opened.upsert([one])
        assert "secret" not in str(error.value)
    with pytest.raises(StoreError, match="UUID"):
        await opened.get(["nonsense"])
    with pytest.raises(StoreError, match="UUID"):
        await opened.delete(ids=["nonsense"])
    assert await opened.count() == 0


async def test_an_unknown_kind_of_index_is_refused(make: Made) -> None:
    made = make()
    kinds: dict[str, Any] = {"tenant": "geo"}
    with pytest.raises(StoreError, match="geo"):
        await made.open(DIM, kinds)
    await made.close()


async def test_nothing_works_before_it_is_open(make: Made) -> None:
    made = make()
    for attempt in (made.search(unit(1), Where(), 1), made.upsert([point(0)]), made.count(), made.get([])):
        with pytest.raises(StoreError):
            await attempt
    await made.close()


async def test_searches_are_right_while_points_are_written(opened: VectorStore) -> None:
    await opened.upsert([point(5, n="fixed", tenant="fixed")])

    async def write() -> None:
        for round_ in range(10):
            await opened.upsert([point(number, n=round_, tenant="busy") for number in range(100)])
            await opened.delete(where=Where(equal={"tenant": "busy"}, below={"n": round_}))
            await asyncio.sleep(0)

    async def read() -> int:
        searches = 0
        while not writing.done():
            assert await found(opened, Where(equal={"tenant": "fixed"})) == ["fixed"]
            searches += 1
            await asyncio.sleep(0)
        return searches

    writing = asyncio.ensure_future(write())
    assert min(await asyncio.gather(read(), read(), read())) > 0
    await writing
    assert await opened.count(Where(equal={"tenant": "busy"})) == 100


async def test_optimize_loses_nothing(opened: VectorStore) -> None:
    await opened.upsert([point(number / 10, n=number, tenant="a") for number in range(800)])
    await opened.delete(where=Where(below={"n": 100}))
    before = await found(opened, Where(equal={"tenant": "a"}), 700)
    await opened.optimize()
    assert await found(opened, Where(equal={"tenant": "a"}), 700) == before
    await opened.upsert([point(0, n="new", tenant="a")])
    assert (await found(opened, Where(equal={"tenant": "a"}), 1)) == ["new"]


def test_any_scalar_may_be_wanted() -> None:
    wanted: list[Scalar] = ["a", 1, 1.5, True]
    assert Where(equal={"field": wanted}).equal["field"] == wanted
