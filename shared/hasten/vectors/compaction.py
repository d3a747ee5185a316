"""Optimises a copy of a collection in a process of low priority, and brings it up to date with what came meanwhile."""

import contextlib
from pathlib import Path

from hasten.vectors import wire
from hasten.vectors.process import EngineProcess
from hasten.vectors.store import StoreError

MAX_BEHIND = 64 * 1024 * 1024
"""Bytes written during a compaction before it is given up."""
NICE = 10
ROUNDS = 4


async def optimize_copy(place: Path, opened: wire.Open) -> None:
    """Optimises the copy in `place`; raises StoreError. It ends with this call, also when that is cancelled."""
    engine = await EngineProcess.start(place, nice=NICE)
    try:
        await engine.ask(opened)
        await engine.ask(wire.Optimize())
    except BaseException:
        engine.kill()
        raise
    finally:
        await engine.stop()


class Behind:
    """The writes that a copy lacks, in order."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._size = 0

    def add(self, frame: bytes) -> None:
        """Notes a write; too many of them are forgotten, and the compaction fails."""
        self._size += len(frame)
        if self._size > MAX_BEHIND:
            self._frames.clear()
        else:
            self._frames.append(frame)

    async def catch_up(self, engine: EngineProcess) -> None:
        """Replays while writes go on, until few are left or a few rounds were not enough."""
        for _ in range(ROUNDS):
            if len(self._frames) < ROUNDS:
                return
            await self.replay(engine)

    async def replay(self, engine: EngineProcess) -> None:
        """Replays what there is. A write that the engine refuses was refused to its caller as well."""
        frames, self._frames = self._frames, []
        for frame in frames:
            with contextlib.suppress(StoreError):
                await engine.ask_encoded(frame)
        if self._size > MAX_BEHIND:
            raise StoreError("too much was written meanwhile")
        if not engine.alive:
            raise StoreError("its engine ended")
