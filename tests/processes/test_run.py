"""One service as a process: ready line, signals, and one sentence for what a person can put right."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.request import urlopen

import pytest
import pytest_asyncio

from hasten.bus import Bus
from hasten.messages.chat import Chunk, Done, Turn
from hasten.messages.failure import Failure
from hasten.messages.generate import GENERATE, Generate
from hasten.nats_server import NatsServer, free_port

CONFIG = """
[worker]
worker = "w1"
[[models]]
name = "sim"
engine = { kind = "sim", sim_decode_per_s = 40.0, sim_answer = "one two three four five six seven eight nine ten" }
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "hasten.toml"
    path.write_text(CONFIG)
    return path


class Process:
    """A `python -m hasten.<service>` of a test."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, service: str, *arguments: str) -> "Process":
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"hasten.{service}",
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return cls(process)

    async def ready(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            return (await self.process.stdout.readline()).decode()

    async def says(self, words: str) -> None:
        """Returns when a line on stderr has these words."""
        assert self.process.stderr is not None
        async with asyncio.timeout(60):
            while words not in (line := (await self.process.stderr.readline()).decode()):
                assert line, "it has ended"

    async def ended(self) -> tuple[int, str]:
        """Its exit code and what it said on stderr."""
        async with asyncio.timeout(60):
            _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()


@pytest_asyncio.fixture
async def worker(nats_server: NatsServer, config: Path, tmp_path: Path) -> AsyncIterator[Process]:
    made = await Process.start("worker", "--nats", nats_server.url, "--config", str(config), "--data", str(tmp_path))
    assert await made.ready() == f"ready service=worker nats={nats_server.url} model=sim\n"
    yield made
    if made.process.returncode is None:
        made.process.kill()
        await made.process.wait()


async def generate(bus: Bus, worker: Process, *signals: str) -> list[object]:
    """The events of one generation; each signal is sent after one more chunk."""
    body = Generate(messages=[Turn(role="user", content="count")], max_tokens=64)
    events: list[object] = []
    left = list(signals)
    stream = await bus.stream(GENERATE, body, slug="sim", worker="w1", headers={"Hasten-Tenant": "acme"})
    async for event in stream:
        events.append(event)
        if isinstance(event, Chunk) and left:
            getattr(worker.process, left.pop(0))()
    return events


async def test_sigterm_finishes_what_was_accepted(bus: Bus, worker: Process) -> None:
    events = await generate(bus, worker, "terminate")
    text = "".join(event.text for event in events if isinstance(event, Chunk))
    assert text.split()[-1] == "ten"
    assert isinstance(events[-1], Done)
    code, errors = await worker.ended()
    assert code == 0
    assert "draining" in errors


async def test_a_second_signal_ends_at_once_and_the_reader_hears_why(bus: Bus, worker: Process) -> None:
    events = await generate(bus, worker, "terminate", "terminate")
    assert isinstance(events[-1], Failure)
    assert events[-1].code == "draining"
    code, _ = await worker.ended()
    assert code == 1


async def test_an_end_without_a_server_is_no_good_end(config: Path, tmp_path: Path) -> None:
    """What it wanted to say at last was not heard, so nobody may take it for drained."""
    server = await NatsServer(tmp_path / "own").start()
    worker = await Process.start("worker", "--nats", server.url, "--config", str(config))
    assert await worker.ready()
    await server.stop(kill=True)
    await worker.says("connection: ")
    worker.process.terminate()
    code, said = await worker.ended()
    assert code == 1
    assert "never reached the server" in said


@pytest.mark.parametrize("by_variable", [False, True])
async def test_metrics_are_exposed(
    nats_server: NatsServer, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    port = free_port()
    common = ["--nats", nats_server.url, "--config", str(config), "--data", str(tmp_path)]
    if by_variable:
        monkeypatch.setenv("HASTEN_METRICS", f"127.0.0.1:{port}")
    else:
        common += ["--metrics", f"127.0.0.1:{port}"]
    process = await Process.start("router", *common)
    assert "ready" in await process.ready()
    text = await asyncio.to_thread(lambda: urlopen(f"http://127.0.0.1:{port}/metrics").read().decode())
    process.process.terminate()
    assert "hasten_loop_lag_seconds_bucket" in text
    assert (await process.ended())[0] == 0


async def refused(service: str, *arguments: str) -> str:
    """The one line of a process that cannot start."""
    process = await Process.start(service, *arguments)
    code, errors = await process.ended()
    assert code == 2, errors
    assert "Traceback" not in errors
    (line,) = errors.strip().splitlines()
    return line


async def test_no_server_is_one_sentence() -> None:
    assert "no NATS server answers at nats://127.0.0.1:" in await refused(
        "router", "--nats", f"nats://a:hush@127.0.0.1:{free_port()}"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[router", "is not valid TOML"),
        ("[cash]\nhot = 1", "there is no section cash; there are cache, changes, "),
        ("[router]\nnonsense = 1", "[router] has no setting nonsense; it has "),
        ("[router]\nlimits = 1", "[router] has no setting limits; did you mean limit?"),
        ('[router]\nlimit = "many"', "[router]: limit: expected `int`"),
        ("models = []", "[[models]] is empty"),
        ('[[models]]\nname = "a"\n[[models]]\nname = "a"', "a is used twice"),
    ],
)
async def test_a_wrong_config_is_one_sentence(nats_server: NatsServer, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    assert said in await refused("router", "--nats", nats_server.url, "--config", str(path))


async def test_a_wrong_config_is_told_before_anything_is_connected_to(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('[changes]\nsources = ["hasten.>"]')
    said = await refused("cache", "--nats", f"nats://127.0.0.1:{free_port()}", "--config", str(path))
    assert "sources: 'hasten.>' must begin with a name" in said


async def test_an_absent_config_is_one_sentence(nats_server: NatsServer, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.toml")
    assert "cannot be read" in await refused("router", "--nats", nats_server.url, "--config", absent)


async def test_a_port_in_use_is_one_sentence(nats_server: NatsServer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        common = ("--nats", nats_server.url, "--data", str(tmp_path))
        assert at in await refused("router", *common, "--metrics", at)
        assert "in use" in await refused("gateway", *common, "--config", str(gateway_config(tmp_path, at)))


def gateway_config(folder: Path, http: str) -> Path:
    path = folder / "gateway.toml"
    path.write_text(f'[gateway]\nhttp = "{http}"\n')
    return path
