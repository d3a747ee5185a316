"""What is particular to the embedded store: files, owners, killed processes, compactions, and the event loop."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from hasten.vectors import edge, supervisor
from hasten.vectors.edge import EdgeStore
from hasten.vectors.generations import Generations
from hasten.vectors.store import IndexKind, Point, StoreError, Vector, Where

DIM = 16
INDEXES: dict[str, IndexKind] = {"tenant": "keyword", "n": "integer"}
EVERYTHING = Where()


def vectors(count: int, dim: int = DIM) -> Vector:
    """Random unit rows."""
    rows = np.random.default_rng(0).normal(size=(count, dim)).astype(np.float32)
    made: Vector = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return made


def points(count: int, start: int = 0, dim: int = DIM) -> list[Point]:
    """Points numbered from `start`; the id of a number is always the same."""
    return [
        Point(id=str(uuid.UUID(int=start + at)), vector=row, payload={"tenant": "a", "n": start + at})
        for at, row in enumerate(vectors(count, dim))
    ]


def generations(folder: Path) -> list[Path]:
    """The generations on disk."""
    return list(folder.glob("generation-*"))


def size(folder: Path) -> int:
    """MB that the points and their indexes take on disk; the log beside them has a bound of its own."""
    files = [path for path in folder.glob("generation-*/segments/**/*") if path.is_file()]
    return sum(path.stat().st_blocks * 512 for path in files) >> 20


async def numbers(store: EdgeStore) -> set[int]:
    """The numbers of all points."""
    return {point.payload["n"] for point in await store.scroll(EVERYTHING, 100_000)}


async def test_it_survives_closing_and_opening(tmp_path: Path) -> None:
    first = EdgeStore(tmp_path)
    assert await first.open(DIM, INDEXES) == ["tenant", "n"]
    await first.upsert(points(300))
    await first.set_payload([points(1)[0].id], {"extra": True})
    await first.close()
    second = EdgeStore(tmp_path)
    assert await second.open(DIM, INDEXES) == []
    assert await numbers(second) == set(range(300))
    assert (await second.get([points(1)[0].id]))[0].payload["extra"] is True
    assert len(await second.search(vectors(1)[0], Where(equal={"tenant": "a"}), 10)) == 10
    await second.close()


async def test_missing_indexes_are_mended_and_named(tmp_path: Path) -> None:
    old = EdgeStore(tmp_path)
    await old.open(DIM, {"tenant": "keyword"})
    await old.upsert(points(50))
    await old.close()
    new = EdgeStore(tmp_path)
    assert await new.open(DIM, INDEXES) == ["n"]
    assert await new.count(Where(above={"n": 39.5})) == 10
    await new.close()


async def test_another_width_is_refused_with_both_sizes_and_the_folder_stays_usable(tmp_path: Path) -> None:
    first = EdgeStore(tmp_path)
    await first.open(DIM, INDEXES)
    await first.close()
    wrong = EdgeStore(tmp_path)
    with pytest.raises(StoreError, match=r"16.*768"):
        await wrong.open(768, INDEXES)
    await wrong.close()
    again = EdgeStore(tmp_path)
    await again.open(DIM, INDEXES)
    await again.close()


async def test_a_second_opener_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "TAKE_S", 0.2)
    folder = tmp_path / "answers"
    first, second = EdgeStore(folder), EdgeStore(folder)
    await first.open(DIM, INDEXES)
    with pytest.raises(StoreError, match="answers is open in another"):
        await second.open(DIM, INDEXES)
    await first.upsert(points(1))
    await first.close()
    await second.open(DIM, INDEXES)
    assert await numbers(second) == {0}
    await second.close()


WRITER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_vectors_edge import *

async def write():
    store = EdgeStore(Path(sys.argv[1]))
    await store.open(DIM, INDEXES)
    await store.upsert(points(500))
    await store.delete(where=Where(below={"n": 100}))
    for number in range(500, 1_000_000):
        await store.upsert(points(1, number))
        print(number, flush=True)

asyncio.run(write())
"""


def written_until_killed(folder: Path) -> int:
    """Writes point after point in another process, kills it without warning, and returns the last it had written."""
    command = [sys.executable, "-c", WRITER, str(folder), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1) as writer:
        assert writer.stdout is not None
        last = 0
        while last < 700:
            last = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        return max([last, *(int(line) for line in writer.stdout.read().split("\n")[:-1])])


async def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    last = await asyncio.to_thread(written_until_killed, tmp_path)
    after = EdgeStore(tmp_path)
    await after.open(DIM, INDEXES)
    kept = await numbers(after)
    assert kept >= set(range(100, last + 1))
    assert not kept & set(range(100))
    await after.close()


async def test_an_engine_that_dies_is_started_again_with_everything(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path)
    await store.open(DIM, INDEXES)
    await store.upsert(points(200))
    assert store._supervisor.engine is not None
    os.kill(store._supervisor.engine.pid, signal.SIGKILL)
    while store._supervisor.engine.alive:
        with contextlib.suppress(StoreError):
            await store.count()
    assert await numbers(store) == set(range(200))
    await store.upsert(points(1, 200))
    assert await store.count() == 201
    await store.close()


async def test_signals_of_a_terminal_do_not_end_the_engine(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path)
    await store.open(DIM, INDEXES)
    assert store._supervisor.engine is not None
    pid = store._supervisor.engine.pid
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
    await store.upsert(points(1))
    assert store._supervisor.engine.pid == pid
    await store.close()


async def test_reads_and_writes_go_on_during_a_compaction(tmp_path: Path) -> None:
    shares: list[float] = []
    while not shares or (shares[-1] >= 0.5 and len(shares) < 3):
        shares.append(await share_of_the_slowest(tmp_path / str(len(shares))))
    assert shares[-1] < 0.5


async def share_of_the_slowest(folder: Path) -> float:
    """How much of the time of a compaction the slowest of the searches in it took."""
    store = EdgeStore(folder)
    await store.open(DIM, INDEXES)
    await store.upsert(points(5000))
    await store.delete(where=Where(below={"n": 1000}))
    query, before = vectors(1)[0], store._supervisor.engine
    compaction, number, slowest = asyncio.ensure_future(store.optimize()), 5000, 0.0
    started = time.perf_counter()
    while not compaction.done():
        began = time.perf_counter()
        assert len(await store.search(query, Where(equal={"tenant": "a"}), 10)) == 10
        slowest = max(slowest, time.perf_counter() - began)
        await store.upsert(points(1, number))
        await store.delete(ids=[str(uuid.UUID(int=number - 4000))])
        await store.set_payload([str(uuid.UUID(int=number))], {"late": True})
        number += 1
        await asyncio.sleep(0.005)
    await compaction
    took = time.perf_counter() - started
    assert store._supervisor.engine is not before
    expected = set(range(number - 4000, number))
    assert await numbers(store) == expected
    await store.close()
    again = EdgeStore(folder)
    await again.open(DIM, INDEXES)
    assert await numbers(again) == expected
    assert (await again.get([str(uuid.UUID(int=number - 1))]))[0].payload["late"] is True
    assert len(generations(folder)) == 1
    await again.close()
    return slowest / max(took, 0.4) if number > 5001 else 1.0


async def test_a_collection_that_is_rewritten_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "COMPACT_AFTER", 2000)
    sizes = []
    store = EdgeStore(tmp_path)
    await store.open(384, INDEXES)
    for round_ in range(10):
        await store.upsert(points(1000, round_ * 1000, 384))
        await store.delete(where=Where(below={"n": round_ * 1000}))
        if store._compaction is not None:
            await asyncio.wait({store._compaction})
        sizes.append(size(tmp_path))
    assert await numbers(store) == set(range(9000, 10_000))
    assert max(sizes[5:]) <= max(sizes[:5]) + 1
    await store.close()


async def test_closing_gives_up_a_compaction_and_loses_nothing(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path)
    await store.open(DIM, INDEXES)
    await store.upsert(points(4000))
    compaction = asyncio.ensure_future(store.optimize())
    await asyncio.sleep(0.1)
    await store.close()
    with pytest.raises(StoreError, match="closed before"):
        await compaction
    again = EdgeStore(tmp_path)
    await again.open(DIM, INDEXES)
    assert await again.count() == 4000
    assert len(generations(tmp_path)) == 1
    await again.close()


async def test_a_compaction_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = EdgeStore(tmp_path)
    await store.open(DIM, INDEXES)
    await store.upsert(points(100))

    def taken(self: Generations) -> Path:
        return self.current

    monkeypatch.setattr(Generations, "next", taken)
    with pytest.raises(StoreError, match="copy the collection"):
        await store.optimize()
    await store.upsert(points(1, 100))
    assert await store.count() == 101
    await store.close()


async def test_the_loop_goes_on_while_much_is_written(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path)
    await store.open(384, INDEXES)
    many = points(6000, dim=384)
    started, last, longest, turns = time.perf_counter(), time.thread_time(), 0.0, 0
    writing = asyncio.gather(*(store.upsert(many[at : at + 1000]) for at in range(0, 6000, 1000)), store.count())
    while not writing.done():
        await asyncio.sleep(0.001)
        longest, last, turns = max(longest, time.thread_time() - last), time.thread_time(), turns + 1
    await writing
    await store.close()
    assert longest < (time.perf_counter() - started) / 4
    assert turns > 10 * 6, "a loop that waited for the writes would get one for each"


async def test_half_of_a_creation_is_made_anew(tmp_path: Path) -> None:
    half = tmp_path / "generation-first.new"
    half.mkdir()
    (half / "edge_config.json").write_text("{")
    store = EdgeStore(tmp_path)
    await store.open(DIM, INDEXES)
    await store.upsert(points(3))
    assert await store.count() == 3
    await store.close()
