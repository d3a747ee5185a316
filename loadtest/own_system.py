"""A hasten of one's own for a run: a NATS server and each service as a process of its own."""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from hasten.bus import Bus
from hasten.client import Hasten
from hasten.journal import ensure_stream
from hasten.keys import ensure_key
from hasten.models import Model, model_table
from hasten.nats_server import NatsServer, free_port
from hasten.runtime import STAGES
from loadtest.crew import ready
from loadtest.scenario import Own
from loadtest.staleness.fleet import Member
from loadtest.toml_text import written

TENANT = "loadtest"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a run asks: addresses (empty for what is not there), a key for HTTP, and process ids by service where they
    are known."""

    nats: str = ""
    http: str = ""
    key: str = ""
    pids: dict[str, list[int]] = {}


@contextlib.asynccontextmanager
async def own_system(own: Own, models: Path | None) -> AsyncIterator[Target]:
    """Starts it in a folder that goes with it; `models`, an absolute path, is the folder with the prepared weights."""
    with tempfile.TemporaryDirectory(prefix="hasten-load-") as name:
        folder = Path(name)
        if models is not None:
            (folder / "models").symlink_to(models)
        server = await NatsServer(folder / "jetstream").start()
        members: dict[str, list[Member]] = {}
        try:
            async with _bus(server.url) as bus:
                key = await ensure_key(bus, TENANT, folder)
                http = await _start(own, folder, server, members)
                async with Hasten.connect(server.url, tenant=TENANT) as hasten:
                    await ready(hasten, len(members.get("worker", [])))
            pids = {service: [member.pid for member in some] for service, some in members.items()}
            yield Target(nats=server.url, http=http, key=key, pids={**pids, "nats-server": [server.pid]})
        finally:
            await asyncio.gather(*(member.stop() for some in members.values() for member in some))
            await server.stop(kill=True)


@contextlib.asynccontextmanager
async def _bus(url: str) -> AsyncIterator[Bus]:
    bus = await Bus.connect(url, name="loadtest")
    try:
        await ensure_stream(bus)
        yield bus
    finally:
        await bus.close()


async def _start(own: Own, folder: Path, server: NatsServer, members: dict[str, list[Member]]) -> str:
    """Starts the services stage by stage; returns the address of the gateway, if it is one of them."""
    config = folder / "hasten.toml"
    config.write_text(written(own.config))
    port = free_port()
    for stage in STAGES:
        wanted = {one: _members(one, own, folder, config, server, port) for one in stage if one in own.services}
        members.update(wanted)
        await asyncio.gather(*(member.start() for some in wanted.values() for member in some))
    return f"http://127.0.0.1:{port}" if "gateway" in own.services else ""


def _members(service: str, own: Own, folder: Path, config: Path, server: NatsServer, port: int) -> list[Member]:
    made: list[Member] = []
    copies = range(1, own.replicas.get(service, 1) + 1)
    named: Sequence[tuple[str, dict[str, str], list[str]]] = [(f"{service}{copy}", {}, []) for copy in copies]
    if service == "worker":
        rows: list[Model] = model_table(own.config)
        named = [
            (f"{model.slug}-{copy}", {"HASTEN_WORKER_WORKER": f"{model.slug}-{copy}"}, ["--model", model.name])
            for model in rows
            for copy in copies
        ]
    if service == "gateway":
        named = [("gateway", {"HASTEN_GATEWAY_HTTP": f"127.0.0.1:{port}"}, [])]
    for name, environment, more in named:
        where = ["--config", str(config), "--data", str(folder)]
        command = [sys.executable, "-m", f"hasten.{service}", *where, *more]
        made.append(Member(service, command, environment, server.url, folder / f"{name}.log"))
    return made
