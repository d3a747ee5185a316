"""`hasten up` and the other commands as a person starts them, each a process of its own."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from hasten.embedder import export

STATE = Path(__file__).parents[2] / ".hasten"


class Up:
    """A running `hasten up --engine sim`, or one that has ended."""

    def __init__(self, process: asyncio.subprocess.Process, data: Path) -> None:
        self.process, self.data = process, data

    async def ready(self) -> tuple[str, str]:
        """The HTTP and the NATS address of the ready line."""
        assert self.process.stdout is not None
        async with asyncio.timeout(120):
            line = (await self.process.stdout.readline()).decode()
        word, http, nats = line.split()
        assert word == "ready"
        return http.removeprefix("http="), nats.removeprefix("nats=")

    async def ended(self) -> tuple[int, str, str]:
        async with asyncio.timeout(120):
            out, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), errors.decode()

    def server(self) -> psutil.Process:
        """Its NATS server."""
        children = psutil.Process(self.process.pid).children()
        (found,) = [child for child in children if "nats-server" in child.name()]
        return found


async def hasten(*arguments: str, data: Path, **environment: str) -> Up:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hasten.cli",
        *arguments,
        env={"HASTEN_DATA": str(data), "PATH": "/usr/bin:/bin", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    return Up(process, data)


async def said(*arguments: str, data: Path) -> tuple[int, str, str]:
    """Runs a command to its end: exit code, stdout, stderr."""
    return await (await hasten(*arguments, data=data)).ended()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    export.prepare(STATE, print)
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "models").symlink_to(STATE / "models")
    return folder


@pytest_asyncio.fixture
async def up(data: Path) -> AsyncIterator[Up]:
    made = await hasten("up", "--engine", "sim", "--http", "127.0.0.1:0", data=data)
    yield made
    if made.process.returncode is None:
        made.process.terminate()
        await made.ended()
