"""The services between a question and simulated workers, each in a process of its own on a server of its own."""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from nats.aio.msg import Msg

from hasten.bus import Bus
from hasten.discovery import survey
from hasten.journal import ensure_stream
from hasten.messages.generate import STATUS, Status
from hasten.nats_server import NatsServer
from loadtest.staleness.fleet import Member

MODEL = "sim"
SERVICES = ("router", "compressor", "orchestrator")


class Pipeline:
    """A router, a compressor, an orchestrator, and workers that may come and go.

    `engine` is the table of their row in the model table, `row` what else the row says, both in TOML; `model` its name,
    which must be a slug.
    """

    def __init__(self, server: NatsServer, bus: Bus, folder: Path, engine: str, row: str, model: str = MODEL) -> None:
        self.server, self.bus, self.folder, self._row, self._model = server, bus, folder, row, model
        self.members: dict[str, Member] = {}
        self._ready: set[str] = set()
        self._some = asyncio.Event()
        self._config = self._configured("hasten", engine)

    def _configured(self, name: str, engine: str) -> Path:
        config = self.folder / f"{name}.toml"
        config.write_text(f'[[models]]\nname = "{self._model}"\n{self._row}\nengine = {{ {engine} }}\n')
        return config

    async def start(self, **environment: str) -> None:
        """Starts the services, and returns when they hear their subjects."""
        await ensure_stream(self.bus)
        await self.bus.subscribe(STATUS.narrowed(slug=self._model), self._on_status)
        await asyncio.gather(*(self.add(name, name, **environment) for name in SERVICES))

    async def add(self, name: str, service: str, *, module: str = "", engine: str = "", **environment: str) -> Member:
        """Starts one process of a service, by `module` if that is not the service's own; `engine` is another one."""
        config = self._configured(name, engine) if engine else self._config
        where = ("--config", str(config), "--data", str(self.folder))
        command = [sys.executable, "-m", module or f"hasten.{service}", *where]
        log = self.folder / f"{name}.log"
        made = self.members[name] = Member(service, command, environment, self.server.url, log)
        await made.start()
        return made

    async def add_worker(self, name: str, *, module: str = "", engine: str = "") -> Member:
        """Starts a worker, and returns when its status says that it is ready."""
        made = await self.add(name, "worker", module=module, engine=engine, HASTEN_WORKER_WORKER=name)
        while name not in self._ready:
            self._some.clear()
            await self._some.wait()
        return made

    async def leave(self, name: str) -> None:
        """Ends a member in order: it finishes what it has accepted."""
        await self.members.pop(name).stop(kill=False)
        self._ready.discard(name)

    async def _on_status(self, msg: Msg) -> None:
        status = msgspec.json.decode(msg.data, type=Status)
        worker = STATUS.parse(msg.subject)["worker"]
        (self._ready.add if status.state == "ready" else self._ready.discard)(worker)
        self._some.set()

    async def generations(self) -> dict[str, int]:
        """How many generations each worker has been asked for."""
        found: dict[str, Any] = {one.report["worker"]: one for one in await survey(self.bus) if one.name == "worker"}
        return {name: int(one.endpoints[0]["num_requests"]) for name, one in found.items()}

    async def close(self) -> None:
        """Ends every process."""
        await asyncio.gather(*(member.stop() for member in self.members.values()))


@contextlib.asynccontextmanager
async def pipeline(engine: str, *, row: str = "", model: str = MODEL, **environment: str) -> AsyncIterator[Pipeline]:
    """A pipeline without workers, in a folder that goes with it; `environment` is that of all its services."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = await NatsServer(folder / "jetstream").start()
        bus = await Bus.connect(server.url, name="loadtest")
        made = Pipeline(server, bus, folder, engine, row, model)
        try:
            await made.start(**environment)
            yield made
        finally:
            await made.close()
            await bus.close()
            await server.stop(kill=True)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))
