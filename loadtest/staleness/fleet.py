"""The processes under test: a nats-server, one shared store, and replicas that can be paused, cut off and killed."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from hasten.nats_server import NatsServer, free_port
from loadtest.staleness.cable import Cable

FRONT = Path(__file__).parents[2] / "tests" / "peers" / "edge_front.py"
"""A REST front on the embedded engine that stands in for a Qdrant server."""
DIM = 16
START_S = 120.0


class Member:
    """One replica as a process of its own, on the server or on the end of a cable."""

    def __init__(self, service: str, command: Sequence[str], environment: dict[str, str], url: str, log: Path) -> None:
        self.service, self._command, self._log = service, [*command, "--nats", url], log
        self._environment = os.environ | environment | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Returns when it hears requests; raises RuntimeError when it ends instead."""
        with self._log.open("ab") as log:
            self._process = process = await asyncio.create_subprocess_exec(
                *self._command, env=self._environment, stdout=asyncio.subprocess.PIPE, stderr=log
            )
        assert process.stdout is not None
        async with asyncio.timeout(START_S):
            line = await process.stdout.readline()
        if not line.startswith(b"ready"):
            raise RuntimeError(f"{self.service} did not start: {self._log.read_text()[-500:]}")

    @property
    def pid(self) -> int:
        """The id of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            if self._process is not None and self._process.returncode is None:
                self._process.send_signal(number)

    async def stop(self, *, kill: bool = True) -> None:
        """Ends it, in order or with SIGKILL, and returns when it has gone."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL if kill else signal.SIGTERM)
        if self._process is not None:
            await self._process.wait()


class Fleet:
    """A server, a store and the members; the first member is on a cable."""

    def __init__(self, server: NatsServer, cable: Cable, members: list[Member]) -> None:
        self.server, self.cable, self.members = server, cable, members

    async def reborn(self) -> None:
        """Kills the NATS server and starts it again on what it had stored."""
        await self.server.stop(kill=True)
        await self.server.start()


@contextlib.asynccontextmanager
async def fleet(folder: Path, services: Sequence[str], *, cache: Sequence[str] = ()) -> AsyncIterator[Fleet]:
    """Starts one member for each name in `services` (`cache`, `orchestrator`); `cache` is another command for it."""
    server, port = NatsServer(folder / "jetstream"), free_port()
    front = await asyncio.create_subprocess_exec(
        sys.executable, str(FRONT), str(port), str(folder), env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    settings = {"STORE_URL": f"http://127.0.0.1:{port}", "DIM": str(DIM), "TIDY_S": "5", "HOT_S": "3"}
    environment = {f"HASTEN_CACHE_{name}": value for name, value in settings.items()}
    try:
        await server.start()
        async with Cable(server.port) as cable:
            members = []
            for number, service in enumerate(services):
                command = cache if cache and service == "cache" else [sys.executable, "-m", f"hasten.{service}"]
                url, log = (server.url if number else cable.url), folder / f"{service}{number}.log"
                members.append(Member(service, command, environment, url, log))
            await _listens(port)
            try:
                await asyncio.gather(*(member.start() for member in members))
                yield Fleet(server, cable, members)
            finally:
                cable.cut.set()
                await asyncio.gather(*(member.stop() for member in members))
    finally:
        front.kill()
        await front.wait()
        await server.stop(kill=True)


async def _listens(port: int) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        await asyncio.sleep(0.02)
    raise RuntimeError("the store did not start")
