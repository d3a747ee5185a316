"""The command line of a tenant, each command a process of its own that talks to a server of the test."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator

from hasten.nats_server import NatsServer

PATIENCE_S = 120


async def start(server: NatsServer, *arguments: str, tenant: str = "acme") -> asyncio.subprocess.Process:
    """A command that has been started."""
    with _heeded(signal.SIGINT):
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "hasten.cli", *arguments, "--nats", server.url),
            env={**os.environ, "HASTEN_TENANT": tenant},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )


@contextlib.contextmanager
def _heeded(number: signal.Signals) -> Iterator[None]:
    """What is started meanwhile heeds a signal that this process ignores: one that a script started with & does."""
    before = signal.getsignal(number)
    if before is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(number, before)


async def said(server: NatsServer, *arguments: str) -> tuple[int, str, str]:
    """Runs a command to its end: exit code, stdout, stderr."""
    process = await start(server, *arguments)
    async with asyncio.timeout(PATIENCE_S):
        out, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), errors.decode()
