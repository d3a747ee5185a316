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


@contextlib.asynccontextmanager
async def _started(data: Path, engine: str, entries: int) -> AsyncIterator[address.Address]:
    command = [sys.executable, "-m", "hasten.cli", "up", "--data", str(data), "--engine", engine]
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
