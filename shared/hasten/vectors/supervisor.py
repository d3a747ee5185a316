"""Keeps the engine of one folder running: started for one process at a time, and again when it has ended."""

import asyncio
from pathlib import Path

from hasten.telemetry import logger
from hasten.vectors import wire
from hasten.vectors.generations import Generations
from hasten.vectors.process import EngineProcess, to_the_end
from hasten.vectors.store import StoreError

TAKE_S = 3.0
"""How long to wait for the engine of an owner that was killed to notice."""
AGAIN_S = 5.0
"""How long after a start of the engine that failed the next one is tried."""

log = logger("vectors")


class Supervisor:
    """`engine` is the present one, None before `open` and after `stop`. Who holds `lock` knows that no other takes its
    place meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._name = folder.name
        self.generations = Generations(folder)
        self.engine: EngineProcess | None = None
        self.lock = asyncio.Lock()
        self._open = wire.Open(dim=0, indexes={})
        self._start: asyncio.Task[EngineProcess] | None = None
        self._failed: tuple[float, StoreError] | None = None

    @property
    def opened(self) -> wire.Open:
        """How every engine opens its generation; raises StoreError where none is open."""
        if self.engine is None:
            raise StoreError(f"the collection {self._name} is not open")
        return self._open

    async def open(self, how: wire.Open) -> wire.Opened:
        """Takes the folder and starts the engine; raises StoreError, and leaves nothing behind then."""
        await self._take()
        try:
            await to_the_end(self.generations.tidy)
            self._open = how
            self.engine, opened = await self.started(self.generations.current)
        except BaseException:
            await self.stop()
            raise
        return opened

    async def _take(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + TAKE_S
        while True:
            try:
                return self.generations.take()
            except StoreError:
                if loop.time() > until:
                    raise
                await asyncio.sleep(0.05)

    async def started(self, place: Path) -> tuple[EngineProcess, wire.Opened]:
        """An engine that has opened a generation; raises StoreError, and leaves no process behind then."""
        engine = await EngineProcess.start(place, lock=self.generations.lock)
        try:
            return engine, await engine.ask(self._open, wire.Opened)
        except BaseException:
            engine.kill()
            await engine.stop(flush=False)
            raise

    async def stop(self) -> None:
        """Flushes, ends the engine and lets others open the folder."""
        engine, self.engine = self.engine, None
        if engine is not None:
            await engine.stop()
        self.generations.leave()

    async def running(self) -> EngineProcess:
        """The engine, started again if it has ended: once for all who wait, and not given up with one of them."""
        engine = self.engine
        if engine is None:
            raise StoreError(f"the collection {self._name} is not open")
        if engine.alive:
            return engine
        if self._start is None:
            self._start = asyncio.get_running_loop().create_task(self._again())
            self._start.add_done_callback(self._started_again)
        return await asyncio.shield(self._start)

    async def _again(self) -> EngineProcess:
        loop = asyncio.get_running_loop()
        async with self.lock:
            if self.engine is None:
                raise StoreError(f"the collection {self._name} is not open")
            if self.engine.alive:
                return self.engine
            if self._failed is not None and loop.time() < self._failed[0] + AGAIN_S:
                raise self._failed[1]
            log.error("the engine of the collection %s ended; it is started again", self._name)
            await self.engine.stop()
            try:
                self.engine, _ = await self.started(self.generations.current)
            except StoreError as error:
                log.error("the engine of the collection %s does not start: %s", self._name, error)
                self._failed = (loop.time(), error)
                raise
            self._failed = None
            return self.engine

    def _started_again(self, start: "asyncio.Task[EngineProcess]") -> None:
        self._start = None
        if not start.cancelled():
            start.exception()
