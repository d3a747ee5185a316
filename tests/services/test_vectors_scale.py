"""What makes many points quick to search: graphs and small vectors that find the right ones, and compactions that keep
up with whoever writes."""

import asyncio
import hashlib
import itertools
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from hasten.bench.likeness import alike, asked
from hasten.vectors import edge, generations
from hasten.vectors.edge import EdgeStore
from hasten.vectors.shard import Shard
from hasten.vectors.store import IndexKind, Point, Vector, Where

pytestmark = pytest.mark.timeout(180)
DIM = 384
INDEXES: dict[str, IndexKind] = {"tenant": "keyword", "n": "integer", "third": "integer"}
MINE = Where(equal={"tenant": "a"})
COUNT = 9000
"""More than a tenant may have before it gets a graph."""


def id_of(number: int) -> str:
    """The id of a number."""
    return str(uuid.UUID(int=number))


def made(rows: Vector, start: int = 0) -> list[Point]:
    """Points of one tenant, numbered from `start`."""
    return [
        Point(id=id_of(n), vector=row, payload={"tenant": "a", "n": n, "third": n % 3})
        for n, row in enumerate(rows, start)
    ]


async def recall(store: EdgeStore, rows: Vector, queries: Vector, where: Where, allowed: Any) -> float:
    """The share of the five nearest allowed rows that a search for five finds, over all queries."""
    found = 0
    for query in queries:
        best = np.argsort(-(rows @ query) + 10.0 * ~allowed)[:5]
        matches = await store.search(query, where, 5)
        found += len({id_of(int(n)) for n in best} & {match.id for match in matches})
    return found / (5 * len(queries))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def large(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[EdgeStore, Vector]]:
    """A compacted store, and the rows that are in it by number."""
    store, rows = EdgeStore(tmp_path_factory.mktemp("large")), alike(COUNT)
    await store.open(DIM, INDEXES)
    await store.upsert(made(rows))
    await store.optimize()
    yield store, rows
    await store.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_graph_of_small_vectors_finds_what_an_exact_scan_finds(large: tuple[EdgeStore, Vector]) -> None:
    store, rows = large
    everything = np.ones(len(rows), dtype=bool)
    assert await recall(store, rows, asked(rows, 60), MINE, everything) >= 0.98
    assert await recall(store, rows, alike(60, seed=5), MINE, everything) >= 0.98
    third = Where(equal={"tenant": "a", "third": 1})
    assert await recall(store, rows, asked(rows, 60), third, np.arange(len(rows)) % 3 == 1) >= 0.98


@pytest.mark.asyncio(loop_scope="module")
async def test_scores_are_those_of_the_whole_vectors(large: tuple[EdgeStore, Vector]) -> None:
    store, rows = large
    for query in asked(rows, 10):
        for match in await store.search(query, MINE, 5):
            assert match.score == pytest.approx(float(rows[match.payload["n"]] @ query), abs=1e-5)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_deleted_neighbour_makes_room_for_the_next(large: tuple[EdgeStore, Vector]) -> None:
    store, rows = large
    (query,) = asked(rows, 1, seed=4)
    first, second, *_ = await store.search(query, MINE, 5)
    await store.delete(ids=[first.id])
    assert (await store.search(query, MINE, 1))[0].id == second.id
    await store.upsert(made(rows[first.payload["n"] :][:1], first.payload["n"]))
    assert (await store.search(query, MINE, 1))[0].id == first.id


@pytest.mark.asyncio(loop_scope="module")
async def test_what_was_written_is_in_the_graph_after_a_start(large: tuple[EdgeStore, Vector], tmp_path: Path) -> None:
    store, _ = large
    copied = EdgeStore(tmp_path / "copy")
    (tmp_path / "copy").mkdir()
    generations.copy(store._supervisor.generations.current, tmp_path / "copy" / "generation-first")
    await copied.open(DIM, INDEXES)
    assert copied._loose <= 1
    await copied.close()


def contents(folder: Path) -> dict[str, str]:
    """A hash of every file."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_copy_shares_only_files_that_no_write_changes(tmp_path: Path) -> None:
    dim, count = 1024, 3000
    place = tmp_path / "generation-first"
    shard, rows = Shard(place), alike(count, dim)
    shard.open(dim, INDEXES)
    shard.upsert(made(rows))
    shard.optimize()
    copy = tmp_path / "generation-next"
    generations.copy(place, copy)
    shared = [path for path in copy.rglob("*") if path.is_file() and path.stat().st_nlink > 1]
    assert sum(path.stat().st_size for path in shared) > count * dim * 5
    before, other = contents(place), Shard(copy)
    other.open(dim, {**INDEXES, "late": "keyword"})
    for changed in (other, shard):
        changed.delete([id_of(n) for n in range(500)])
        changed.set_payload([id_of(n) for n in range(600, 700)], {"late": "yes"})
        changed.upsert(made(alike(300, dim, seed=2), 800))
        changed.flush()
        if changed is other:
            changed.optimize()
            assert contents(place) == before
            after = contents(copy)
    assert contents(copy) == after
    other.close()
    shard.close()


async def test_a_compaction_ends_though_nobody_stops_writing(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path)
    await store.open(16, INDEXES)
    await store.upsert(made(alike(3000, 16)))
    numbers, rows = itertools.count(3000), alike(64, 16, seed=3)
    compaction = asyncio.ensure_future(store.optimize())

    async def write(width: int) -> None:
        while not compaction.done():
            at = next(numbers) * 64
            await store.upsert(made(rows[:width], at))
            written.update(range(at, at + width))
            await store.delete(ids=[id_of(at)])
            written.discard(at)

    written = set(range(3000))
    await asyncio.gather(compaction, *(write(width) for width in (1, 1, 1, 2, 64)))
    assert len(written) > 3000
    assert {point.payload["n"] for point in await store.scroll(Where(), 1_000_000, ["n"])} == written
    await store.close()


async def test_updated_payloads_count_as_written_and_a_compaction_follows_when_it_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge, "COMPACT_AFTER", 400)
    store = EdgeStore(tmp_path)
    await store.open(16, INDEXES)
    await store.upsert(made(alike(399, 16)))
    await store.set_payload([id_of(n) for n in range(399)], {"third": 4})
    assert store._compaction is None
    await store.upsert(made(alike(1, 16), 399))
    first: Any = store._compaction
    while store._behind is None:
        await asyncio.sleep(0.001)
    await store.upsert(made(alike(500, 16), 400))
    await asyncio.wait({first})
    assert store._compaction is not None, "as much was written meanwhile"
    await asyncio.wait({store._compaction})
    assert (await store.count(), len(store._written)) == (900, 0)
    await store.close()


async def test_a_compaction_follows_when_much_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = EdgeStore(tmp_path)
    await store.open(16, INDEXES)
    await store.upsert(made(alike(1500, 16)))
    monkeypatch.setattr(edge, "COMPACT_AFTER", 200)
    await store.optimize()
    await store.delete(where=Where(below={"n": 240}))
    assert store._compaction is None, "a sixth of the points is not worth it"
    await store.delete(where=Where(below={"n": 450}))
    assert store._compaction is not None
    await asyncio.wait({store._compaction})
    assert (await store.count(), store._deleted) == (1050, 0)
    await store.close()
