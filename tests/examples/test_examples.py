"""Every example runs as a user would run it, against a system with a simulated model."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hasten.embedder import export
from hasten.system import System, Wanted, system

pytestmark = pytest.mark.timeout(180)
ROOT = Path(__file__).parents[2]


@pytest_asyncio.fixture
async def running(tmp_path: Path) -> AsyncIterator[System]:
    export.prepare(ROOT / ".hasten", print)
    (tmp_path / "models").symlink_to(ROOT / ".hasten" / "models")
    async with system(Wanted(http="127.0.0.1:0", data=tmp_path, engine="sim"), print) as made:
        await made.runtime.start(print)
        yield made
        await made.runtime.drain()
        await made.runtime.close()


async def run(name: str, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(ROOT / "examples" / name), *arguments, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_all_examples(running: System) -> None:
    tried = {
        "plain_nats.py": (running.nats,),
        "openai_client.py": (f"{running.http}/v1", running.key),
        "cache_alone.py": (running.nats,),
    }
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(tried)
    first = await run("plain_nats.py", *tried["plain_nats.py"])
    assert first.endswith("done: miss\n")
    again = await run("plain_nats.py", *tried["plain_nats.py"])
    assert again == first.replace("done: miss", "done: exact")
    assert "completion tokens" in await run("openai_client.py", *tried["openai_client.py"])
    lines = (await run("cache_alone.py", *tried["cache_alone.py"])).splitlines()
    kinds = [line.split(":")[0].split(" (")[0] for line in lines]
    assert kinds == ["miss", "exact hit", "semantic hit", "miss", lines[4], "miss"]
    assert lines[4].startswith("invalidated 1 entries")
    assert "11 euros" in lines[5]
