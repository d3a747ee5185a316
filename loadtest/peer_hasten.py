"""hasten in front of the same model server as its peers: in one process as `hasten up` is, and in many."""

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from hasten import address
from hasten.bus import Bus
from hasten.keys import ensure_key
from hasten.nats_server import free_port
from loadtest.http_lane import HttpLanes
from loadtest.peer import NotThere, process
from loadtest.peer_upstream import MODEL
from loadtest.pipeline import pipeline

TENANT = "demo"
SLOTS = 256
START_S = 120.0


class Running(msgspec.Struct, kw_only=True):
    """A hasten that runs: how it is asked over HTTP and over NATS, and its processes."""

    lanes: HttpLanes
    bus: Bus
    pids: list[int]


def _engine(upstream: str) -> str:
    return f'kind = "openai", url = "{upstream}", slots = {SLOTS}, queue = {SLOTS}'


def _config(data: Path, upstream: str) -> Path:
    data.mkdir(parents=True, exist_ok=True)
    config = data / "compared.toml"
    config.write_text(f'[[models]]\nname = "{MODEL}"\nengine = {{ {_engine(upstream)} }}\n')
    return config


def _lanes(http: str, key: str) -> HttpLanes:
    return HttpLanes(f"{http}/v1", {"Authorization": f"Bearer {key}"})


@contextlib.asynccontextmanager
async def in_one_process(data: Path, upstream: str, *options: str) -> AsyncIterator[Running]:
    """`hasten up` with its embedded NATS server and stores, and these options more; raises NotThere when it does not
    start."""
    config = _config(data, upstream)
    where = ["--data", str(data), "--config", str(config), "--http", "127.0.0.1:0"]
    command = [sys.executable, "-m", "hasten.cli", "up", *where, *options]
    async with process(command, data / "compared.log", {}, reads=True) as made:
        assert made.stdout is not None
        line = await made.stdout.readline()
        found = address.read(data)
        if not line.startswith(b"ready") or found is None:
            raise NotThere("hasten does not start")
        bus = await Bus.connect(found.nats, name="peers")
        key = await ensure_key(bus, TENANT, data)
        lanes = _lanes(found.http, key)
        yield Running(lanes=lanes, bus=bus, pids=[made.pid])
        lanes.close()
        await bus.close()


@contextlib.asynccontextmanager
async def in_processes(upstream: str) -> AsyncIterator[Running]:
    """Gateway, orchestrator, router, compressor, cache and worker, each a process of its own, and a NATS server. There
    is no embedder: whoever asks for exact hits only needs none."""
    http = f"127.0.0.1:{free_port()}"
    async with pipeline(_engine(upstream), model=MODEL) as system:
        await system.add("cache", "cache")
        key = await ensure_key(system.bus, TENANT, system.folder)
        await system.add("gateway", "gateway", HASTEN_GATEWAY_HTTP=http)
        await system.add_worker("w1")
        lanes = _lanes(f"http://{http}", key)
        pids = [*(member.pid for member in system.members.values()), system.server.pid]
        yield Running(lanes=lanes, bus=system.bus, pids=pids)
        lanes.close()
        await system.leave("cache")
