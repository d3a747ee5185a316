"""The system that is measured: one that runs, or one that is started for it as a process of its own."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from hasten import address
from hasten.settings import SettingsError

LEAST = 100_000
STREAMER, PER_S = "streamer", 10.0


@contextlib.asynccontextmanager
async def running(nats: str | None, data: Path, engine: str, entries: int) -> AsyncIterator[address.Address]:
    """The given or running system, or one that is started for the benchmark as a process of its own, with a cache that
    keeps as many entries as are stored in it."""
    found = address.read(data)
    if nats is not None:
        yield address.Address(nats=nats, pid=0)
    elif found is not None:
        yield found
    else:
        async with _started(data, engine, entries) as found:
            yield found


def started_here(nats: str | None, data: Path) -> bool:
    """Whether the benchmark starts its system itself."""
    return nats is None and address.read(data) is None


@contextlib.asynccontextmanager
async def streaming(data: Path, streams: int) -> AsyncIterator[address.Address]:
    """A system whose only model is simulated and writes that many answers at once, `PER_S` words a second each."""
    config = data / "bench-streams.toml"
    config.write_text(f"""[[models]]
name = "{STREAMER}"
engine = {{ kind = "sim", slots = {streams + 1}, queue = {streams}, sim_decode_per_s = {PER_S} }}
""")
    try:
        async with _started(data, "embedded", 0, "--config", str(config)) as found:
            yield found
    finally:
        config.unlink()


@contextlib.asynccontextmanager
async def _started(data: Path, engine: str, entries: int, *options: str) -> AsyncIterator[address.Address]:
    command = [sys.executable, "-m", "hasten.cli", "up", "--data", str(data), "--engine", engine, *options]
    process = await asyncio.create_subprocess_exec(
        *(*command, "--http", "127.0.0.1:0"),
        stdout=asyncio.subprocess.PIPE,
        env={"HASTEN_CACHE_MAX_ENTRIES": str(LEAST + 2 * entries), **os.environ},
    )
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        found = address.read(data)
        if found is None:
            raise SettingsError("the system for the benchmark did not start")
        yield found
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
