"""The embedded store when something breaks: a killed engine, callers that give up, a damaged folder, a full disk."""

import asyncio
import contextlib
import os
import shutil
import signal
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from hasten.bench.likeness import alike
from hasten.vectors import generations, shard, supervisor
from hasten.vectors.edge import EdgeStore
from hasten.vectors.process import EngineProcess
from hasten.vectors.shard import Shard
from hasten.vectors.store import IndexKind, Point, StoreError, Where

DIM = 16
INDEXES: dict[str, IndexKind] = {"tenant": "keyword", "n": "integer"}


def points(count: int, start: int = 0) -> list[Point]:
    """Points numbered from `start`."""
    rows = alike(count, DIM, seed=start)
    return [
        Point(id=str(uuid.UUID(int=n)), vector=row, payload={"tenant": "a", "n": n})
        for n, row in enumerate(rows, start)
    ]


def killed(store: EdgeStore) -> None:
    """Kills the engine without warning."""
    assert store._supervisor.engine is not None
    os.kill(store._supervisor.engine.pid, signal.SIGKILL)


async def until_lost(store: EdgeStore) -> None:
    """Waits until the store has noticed."""
    while store._supervisor.engine is not None and store._supervisor.engine.alive:
        await asyncio.sleep(0.005)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[EngineProcess]:
    """The engines that are started from now on."""
    seen: list[EngineProcess] = []
    start = EngineProcess.start

    async def noted(place: Path, *, lock: int | None = None) -> EngineProcess:
        seen.append(await start(place, lock=lock))
        return seen[-1]

    monkeypatch.setattr(EngineProcess, "start", noted)
    return seen


async def test_callers_that_give_up_do_not_give_up_the_start_of_the_engine(
    tmp_path: Path, starts: list[EngineProcess]
) -> None:
    store = EdgeStore(tmp_path)
    await store.open(DIM, INDEXES)
    await store.upsert(points(50))
    killed(store)
    await until_lost(store)

    async def impatient() -> int:
        async with asyncio.timeout(0.01):
            return await store.count()

    given_up = await asyncio.gather(*(impatient() for _ in range(20)), return_exceptions=True)
    assert all(isinstance(error, TimeoutError) for error in given_up)
    assert await store.count() == 50
    assert len(starts) == 2
    await store.close()


async def test_what_is_under_way_when_the_engine_dies_fails_in_one_sentence(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path)
    await store.open(DIM, INDEXES)
    await store.upsert(points(500))
    asked = [asyncio.ensure_future(store.scroll(Where(), 500)) for _ in range(50)]
    await asyncio.sleep(0)
    killed(store)
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(answer, list) or (isinstance(answer, StoreError) and "ended" in str(answer))
    await until_lost(store)
    assert await store.count() == 500
    await store.close()


async def test_a_kill_during_a_compaction_loses_nothing(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path)
    await store.open(DIM, INDEXES)
    await store.upsert(points(2000))
    compaction = asyncio.ensure_future(store.optimize())
    while store._behind is None:
        await asyncio.sleep(0.001)
    killed(store)
    await until_lost(store)
    await store.upsert(points(10, 2000))
    with contextlib.suppress(StoreError):
        await compaction
    assert await store.count() == 2010
    await store.optimize()
    assert await store.count() == 2010
    await store.close()


async def test_an_engine_that_does_not_start_is_not_started_for_every_caller(
    tmp_path: Path, starts: list[EngineProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EdgeStore(tmp_path / "answers")
    await store.open(DIM, INDEXES)
    await store.upsert(points(5))
    config = store._supervisor.generations.current / "edge_config.json"
    whole = config.read_text()
    config.write_text("{")
    killed(store)
    await until_lost(store)
    for _ in range(5):
        with pytest.raises(StoreError, match="damaged"):
            await store.count()
    assert len(starts) == 2
    config.write_text(whole)
    monkeypatch.setattr(supervisor, "AGAIN_S", 0.0)
    assert await store.count() == 5
    await store.close()


def _cut_config(place: Path) -> None:
    (place / "edge_config.json").write_text('{"vectors"')


def _no_config(place: Path) -> None:
    (place / "edge_config.json").unlink()


def _no_segment_state(place: Path) -> None:
    for state in place.glob("segments/*/segment.json"):
        state.write_bytes(b"\0" * 100)


def _no_payload_tracker(place: Path) -> None:
    for tracker in place.glob("segments/*/payload_storage/tracker.dat"):
        tracker.write_bytes(b"")


@pytest.mark.parametrize("damage", [_cut_config, _no_config, _no_segment_state, _no_payload_tracker])
async def test_a_damaged_folder_is_said_to_be_with_what_to_do(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    folder = tmp_path / "answers"
    store = EdgeStore(folder)
    await store.open(DIM, INDEXES)
    await store.upsert(points(100))
    place = store._supervisor.generations.current
    await store.close()
    damage(place)
    again = EdgeStore(folder)
    with pytest.raises(StoreError, match=r"answers.*move it away"):
        await again.open(DIM, INDEXES)
    shutil.move(folder, tmp_path / "away")
    await again.open(DIM, INDEXES)
    assert await again.count() == 0
    await again.close()


def test_a_disk_that_is_nearly_full_refuses_writes_before_the_engine_dies_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Shard(tmp_path / "generation-first")
    one.open(DIM, INDEXES)
    one.upsert(points(3))
    monkeypatch.setattr(shard, "RESERVE", 1 << 60)
    with pytest.raises(StoreError, match=r"nearly full.*MB are free"):
        one.upsert(points(1, 3))
    with pytest.raises(StoreError, match="nearly full"):
        one.set_payload([points(1)[0].id], {"n": 5})
    assert [point.payload["n"] for point in one.get([points(1)[0].id])] == [0]
    assert one.delete([points(1)[0].id]) == 1, "what goes needs little room"
    assert one.count(None) == 2
    one.close()


async def test_no_compaction_begins_without_room_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = EdgeStore(tmp_path)
    await store.open(DIM, INDEXES)
    await store.upsert(points(20))
    monkeypatch.setattr(generations, "SPARE", 1 << 60)
    with pytest.raises(StoreError, match=r"MB are free on its disk"):
        await store.optimize()
    await store.upsert(points(1, 20))
    assert await store.count() == 21
    assert [name for name in os.listdir(tmp_path) if name.startswith("generation")] == ["generation-first"]
    await store.close()
