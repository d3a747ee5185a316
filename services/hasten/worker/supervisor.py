"""Keeps the engine of a worker running: one that has broken is closed, and a new one started after growing pauses."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from hasten.telemetry import logger
from hasten.worker.engines import Engine, EngineError
from hasten.worker.settings import Settings

log = logger("worker")


class Supervisor:
    """`engine` is the present one, made by `make_engine`, and `well` whether it runs: None until its first start has
    ended. `changed` is awaited whenever it has broken or runs again."""

    def __init__(
        self, settings: Settings, model: str, make_engine: Callable[[], Engine], changed: Callable[[], Awaitable[None]]
    ) -> None:
        self._settings, self._model, self._make_engine, self._changed = settings, model, make_engine, changed
        self.engine = make_engine()
        self.well: bool | None = None
        self._retired = False
        self._reviving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the engine; raises what it raises. After an EngineError, which means that it can only run later, it
        is tried again in the background."""
        try:
            await self.engine.start()
        except EngineError as error:
            log.warning("%s cannot run yet: %s", self._model, error.detail)
            self.well = False
            self._begin(self.engine)
        except BaseException:
            self.well = False
            raise
        else:
            self.well = True

    def broken(self, engine: Engine, error: Exception) -> bool:
        """Takes an engine for broken and, unless the worker drains, starts a new one; False when that is known already,
        as it is to all generations but the first that notice."""
        if engine is not self.engine or self.well is False:
            return False
        log.error("the engine of %s broke (%s)", self._model, type(error).__name__)
        self.well = False
        if not self._retired:
            self._begin(engine)
        return True

    def _begin(self, broken: Engine) -> None:
        self._reviving = asyncio.get_running_loop().create_task(self._revive(broken))

    async def _revive(self, broken: Engine) -> None:
        await self._changed()
        with contextlib.suppress(Exception):
            await broken.close()
        pause_s, engine = self._settings.revive_after_s, None
        while engine is None:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, self._settings.revive_most_s)
            engine = await self._new_engine()
        self.engine, self.well = engine, True
        await self._changed()

    async def _new_engine(self) -> Engine | None:
        """An engine that has started; None when it does not. One that fails or is given up half way is closed."""
        engine = self._make_engine()
        try:
            await engine.start()
        except BaseException as error:
            with contextlib.suppress(Exception):
                await engine.close()
            if not isinstance(error, Exception):
                raise
            why = error.detail if isinstance(error, EngineError) else type(error).__name__
            log.error("the engine of %s does not start: %s", self._model, why)
            return None
        return engine

    def retire(self) -> None:
        """An engine that breaks from now on is not followed by another one."""
        self._retired = True

    async def close(self) -> None:
        """Closes the engine, and before it one that is just being started. Survives a half-finished start."""
        try:
            if self._reviving is not None:
                self._reviving.cancel()
                await asyncio.gather(self._reviving, return_exceptions=True)
            await self.engine.close()
        finally:
            self.well = False
