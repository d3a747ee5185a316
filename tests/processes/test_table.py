"""The model table of running processes: an edit of the file is taken without a restart, SIGHUP has it read at once."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from command_rig import said
from router_rig import listed

from hasten.bus import Bus
from hasten.messages.chat import Chunk, Done, Turn
from hasten.messages.generate import GENERATE, Generate
from hasten.nats_server import NatsServer

CONFIG = """
[worker]
worker = "w1"
[[models]]
name = "sim"
defaults = { seed = 1 }
engine = { kind = "sim", sim_decode_per_s = 5000.0 }
"""
MORE = CONFIG + '\n[[models]]\nname = "more"\n'
PROMPT = "when does the tide rise and how long does it stay so high at the old harbour"
PATIENCE_S = 90


class Running:
    """A `hasten run` of a test and all that it has said on stderr."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.lines = process, list[str]()
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode())

    async def says(self, part: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not any(part in line for line in self.lines):
                await asyncio.sleep(0.02)

    async def end(self) -> None:
        self.process.terminate()
        await self.process.wait()
        await self._reading


async def start(service: str, server: NatsServer, folder: Path) -> Running:
    arguments = ("--nats", server.url, "--config", str(folder / "hasten.toml"), "--data", str(folder))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"hasten.{service}", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        assert (await process.stdout.readline()).startswith(b"ready")
    return Running(process)


@pytest_asyncio.fixture
async def router(nats_server: NatsServer, tmp_path: Path) -> AsyncIterator[Running]:
    (tmp_path / "hasten.toml").write_text(CONFIG)
    made = await start("router", nats_server, tmp_path)
    yield made
    await made.end()


async def lists(bus: Bus, *names: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while [info.name for info in (await listed(bus)).models] != list(names):
            await asyncio.sleep(0.02)


async def test_an_edit_is_taken_and_a_broken_one_is_told_to_the_operator(
    nats_server: NatsServer, bus: Bus, router: Running, tmp_path: Path
) -> None:
    path = tmp_path / "hasten.toml"
    await lists(bus, "sim")
    path.write_text(MORE)
    await lists(bus, "sim", "more")
    await router.says("more is new; `hasten run worker --model more` runs it")
    path.write_text(MORE.replace('name = "more"', 'name = "more"\nquality = "high"'))
    await router.says("line 11: [[models]], row 2: quality: expected `float`, got `str`")
    await lists(bus, "sim", "more")
    code, out, errors = await said(nats_server, "models")
    assert (code, errors) == (0, "")
    assert "more" in out
    assert "line 11: [[models]], row 2: quality" in " ".join(out.split())


async def test_sighup_has_it_read_at_once_and_ends_nothing(bus: Bus, router: Running, tmp_path: Path) -> None:
    router.process.send_signal(signal.SIGHUP)
    (tmp_path / "hasten.toml").write_text(MORE)
    router.process.send_signal(signal.SIGHUP)
    await lists(bus, "sim", "more")
    assert router.process.returncode is None


async def test_without_a_file_sighup_says_that_there_is_nothing_to_read(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    (tmp_path / "hasten.toml").write_text("")
    compressor = await start("compressor", nats_server, tmp_path)
    compressor.process.send_signal(signal.SIGHUP)
    await compressor.says("SIGHUP: there is no model table in a file to read")
    assert compressor.process.returncode is None
    await compressor.end()


async def test_a_worker_takes_the_defaults_of_its_row(nats_server: NatsServer, bus: Bus, tmp_path: Path) -> None:
    path = tmp_path / "hasten.toml"
    path.write_text(CONFIG)
    worker = await start("worker", nats_server, tmp_path)
    first, second = await answer(bus, seed=1), await answer(bus, seed=2)
    assert first != second
    assert await answer(bus) == first
    path.write_text(CONFIG.replace("seed = 1", "seed = 2"))
    worker.process.send_signal(signal.SIGHUP)
    async with asyncio.timeout(PATIENCE_S):
        while await answer(bus) != second:
            await asyncio.sleep(0.02)
    path.write_text(CONFIG.replace('name = "sim"', 'name = "other"'))
    await worker.says("sim is removed; its workers finish what they have and get no more: stop them")
    assert await answer(bus) == second, "what was sent to it is still answered"
    await worker.end()


async def answer(bus: Bus, seed: int | None = None) -> str:
    body = Generate(messages=[Turn(role="user", content=PROMPT)], max_tokens=16, seed=seed)
    stream = await bus.stream(GENERATE, body, slug="sim", worker="w1", headers={"Hasten-Tenant": "acme"})
    events = [event async for event in stream]
    assert isinstance(events[-1], Done), events[-1]
    return "".join(event.text for event in events if isinstance(event, Chunk))
