"""What is done to the fleet meanwhile: pauses, a cut cable, kills, restarts, lost consumers, a new server or stream."""

import asyncio
import contextlib
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator

import nats.errors

from hasten.bus import Bus
from hasten.messages.change import STREAM
from loadtest.staleness.fleet import Fleet

LONGEST_S = 2.5
FAULTS = {"pause": 6, "cut": 4, "kill": 2, "restart": 2, "consumers": 4, "server": 1, "stream": 1}
"""How often each happens, relative to the others."""


class Faults:
    """Does one thing after the other, of these `kinds`, each `every_s` on average."""

    def __init__(self, fleet: Fleet, bus: Bus, chance: random.Random, *, every_s: float, kinds: set[str]) -> None:
        self._fleet, self._bus, self._chance, self._every_s = fleet, bus, chance, every_s
        self._weights = {kind: weight for kind, weight in FAULTS.items() if kind in kinds}
        self.done: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def happening(self) -> AsyncIterator[None]:
        """Faults meanwhile, and a whole fleet afterwards."""
        doing = asyncio.create_task(self._run()) if self._weights else None
        try:
            yield
        finally:
            if doing is not None:
                doing.cancel()
                await asyncio.gather(doing, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.2, 1.8) * self._every_s)
            (kind,) = self._chance.choices(list(self._weights), list(self._weights.values()))
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                await getattr(self, f"_{kind}")()
            self.done[kind] += 1

    def _length_s(self) -> float:
        return self._chance.choice((0.2, 0.9, 1.3, LONGEST_S)) * self._chance.uniform(0.7, 1.0)

    async def _pause(self) -> None:
        member = self._chance.choice(self._fleet.members)
        member.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(self._length_s())
        finally:
            member.signal(signal.SIGCONT)

    async def _cut(self) -> None:
        self._fleet.cable.cut.clear()
        try:
            await asyncio.sleep(self._length_s())
        finally:
            self._fleet.cable.cut.set()

    async def _kill(self) -> None:
        await self._again(kill=True)

    async def _restart(self) -> None:
        await self._again(kill=False)

    async def _again(self, *, kill: bool) -> None:
        member = self._chance.choice(self._fleet.members)
        await member.stop(kill=kill)
        await member.start()

    async def _consumers(self) -> None:
        """Every reader has to begin again from what it had applied."""
        for consumer in await self._bus.js.consumers_info(STREAM):
            await self._bus.js.delete_consumer(STREAM, consumer.name)

    async def _server(self) -> None:
        await self._fleet.reborn()

    async def _stream(self) -> None:
        await self._bus.js.delete_stream(STREAM)
