"""A system of processes on a NATS server, each process on a cable of its own, so that one can be lost in every way."""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from hasten.bus import Bus
from hasten.client import Hasten
from hasten.discovery import Running, survey
from hasten.nats_server import NatsServer
from loadtest.staleness.cable import Cable
from loadtest.staleness.fleet import Member

TENANT = "loadtest"


class Hand(msgspec.Struct, kw_only=True):
    """One process: what it runs, its name there if it is a worker, and its cable."""

    service: str
    name: str
    member: Member
    cable: Cable


class Crew:
    """The processes by service. `bus` is a connection past every cable."""

    def __init__(self, server: NatsServer, bus: Bus, folder: Path, config: str) -> None:
        self.server, self.bus, self._folder = server, bus, folder
        self._cables = contextlib.AsyncExitStack()
        self.hands: dict[str, list[Hand]] = {}
        self._config = folder / "hasten.toml"
        self._config.write_text(config)

    async def add(self, service: str, name: str = "", *, metrics: str = "") -> Hand:
        """One more process of a service, which exposes its metrics at HOST:PORT; returns when it hears requests."""
        cable = await self._cables.enter_async_context(Cable(self.server.port))
        where = [
            "--config",
            str(self._config),
            "--data",
            str(self._folder),
            *(["--metrics", metrics] if metrics else []),
        ]
        environment = {"HASTEN_WORKER_WORKER": name} if name else {}
        command = [sys.executable, "-m", f"hasten.{service}", *where]
        member = Member(service, command, environment, cable.url, self._folder / f"{service}.log")
        await member.start()
        hand = Hand(service=service, name=name, member=member, cable=cable)
        self.hands.setdefault(service, []).append(hand)
        return hand

    async def again(self, lost: Hand) -> Hand:
        """A new process in the place of one that is ended for good."""
        await lost.member.stop()
        self.hands[lost.service].remove(lost)
        return await self.add(lost.service, lost.name)

    async def services(self) -> list[Running]:
        """What every process says of itself."""
        return await survey(self.bus)

    async def close(self) -> None:
        """Ends every process."""
        hands = [hand for some in self.hands.values() for hand in some]
        for hand in hands:
            hand.cable.cut.set()
        await asyncio.gather(*(hand.member.stop() for hand in hands))
        await self._cables.aclose()


@contextlib.asynccontextmanager
async def crew(config: str, models: Path | None = None) -> AsyncIterator[Crew]:
    """A server, a folder (with `models`, an absolute path, if given) and no process yet."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if models is not None:
            (folder / "models").symlink_to(models)
        server = await NatsServer(folder / "jetstream").start()
        bus = await Bus.connect(server.url, name="loadtest")
        made = Crew(server, bus, folder, config)
        try:
            yield made
        finally:
            await made.close()
            await bus.close()
            await server.stop(kill=True)


async def ready(hasten: Hasten, workers: int, timeout_s: float = 60.0) -> None:
    """Returns when the router counts so many workers that take requests."""
    async with asyncio.timeout(timeout_s):
        while True:
            if sum(model.workers for model in await hasten.models()) == workers:
                return
            await asyncio.sleep(0.05)
