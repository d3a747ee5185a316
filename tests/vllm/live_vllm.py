"""The same answer from llama.cpp in process, vLLM in process and a server, by one line of config: `make test-vllm`."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from engine_rig import CHECKPOINT, DATA, SLOTS, WINDOW
from model_server import VLLM, ModelServer, llama, vllm

from hasten.bus import Bus
from hasten.deadline import TENANT, now_ms
from hasten.messages.chat import Chunk, Done, Turn
from hasten.messages.generate import GENERATE, Generate
from hasten.models import LARGE
from hasten.nats_server import NatsServer
from hasten.weights import folder, prepare

pytestmark = pytest.mark.timeout(900)
CONFIG = """
[worker]
worker = "w1"

[[models]]
name = "m"
context_window = 4096
engine = {engine}
"""
LINES = {
    "llama": '{{ kind = "llama", path = "{weights}" }}',
    "vllm": '{{ kind = "vllm", path = "{checkpoint}", {options} }}',
    "vllm_ngram": '{{ kind = "vllm", path = "{checkpoint}", {options}, vllm_ngram_tokens = 4 }}',
    "llama_server": '{{ kind = "openai", url = "{url}", continues = true }}',
    "vllm_server": '{{ kind = "openai", url = "{url}", continues = true }}',
}
OPTIONS = 'vllm_dtype = "float32", vllm_eager = true, vllm_kv_gib = 1.0'
QUESTION = "Name three colours of the rainbow."


@asynccontextmanager
async def _server(name: str) -> AsyncIterator[str]:
    """The address of the server that a line needs, empty for none."""
    commands = {
        "llama_server": lambda: llama(str(folder(DATA) / LARGE.engine.path), SLOTS, WINDOW),
        "vllm_server": lambda: vllm(CHECKPOINT, SLOTS, WINDOW),
    }
    if name not in commands:
        yield ""
        return
    server = await ModelServer(commands[name]()).start()
    try:
        yield server.url
    finally:
        await server.kill()


def _write(config: Path, line: str) -> None:
    config.write_text(CONFIG.format(engine=line))


@asynccontextmanager
async def _worker(name: str, url: str, nats: str, config: Path) -> AsyncIterator[None]:
    """A `hasten run worker` of its own, once it is ready; vLLM's runs with the Python that has vLLM."""
    _write(config, LINES[name].format(weights=LARGE.engine.path, checkpoint=CHECKPOINT, options=OPTIONS, url=url))
    python = os.environ[VLLM] if name in ("vllm", "vllm_ngram") else sys.executable
    arguments = ["-m", "hasten.worker", "--nats", nats, "--data", str(DATA), "--config", str(config)]
    errors = config.with_suffix(".err")
    with errors.open("wb") as file:
        process = await asyncio.create_subprocess_exec(python, *arguments, stdout=asyncio.subprocess.PIPE, stderr=file)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(300):
            while not (said := (await process.stdout.readline()).decode()).startswith("ready"):
                assert said, errors.read_text()
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            await process.communicate()
    said = errors.read_text()
    assert process.returncode == 0, said
    assert "Traceback" not in said, said


async def _answer(bus: Bus, request: Generate) -> tuple[str, Done]:
    given = {"request_id": "r", "deadline_ms": now_ms() + 300_000}
    stream = await bus.stream(GENERATE, request, slug="m", worker="w1", headers={TENANT: "acme"}, **given)  # type: ignore[arg-type]
    events = [event async for event in stream]
    assert isinstance(events[-1], Done), events[-1]
    chunks = [event for event in events if isinstance(event, Chunk)]
    assert len(chunks) > 3, "it is streamed"
    return "".join(chunk.text for chunk in chunks), events[-1]


async def _told(name: str, nats: NatsServer, bus: Bus, config: Path) -> tuple[str, tuple[str, int, int]]:
    """The answer, and how it ended (why, tokens of the prompt and of the answer); it must go on from its beginning."""
    asked = Generate(messages=[Turn(role="user", content=QUESTION)], max_tokens=32, temperature=0.0)
    async with _server(name) as url, _worker(name, url, nats.url, config):
        answer, done = await _answer(bus, asked)
        begun = answer[:40]
        rest, _ = await _answer(bus, msgspec.structs.replace(asked, continues=begun))
    print(f"{name}: first token after {done.ttft_ms:.0f} ms, {answer!r}")
    assert (begun + rest).startswith(answer)
    return answer, (done.finish_reason, done.usage.prompt_tokens, done.usage.completion_tokens)


@pytest.mark.parametrize("name", ["vllm", "vllm_ngram", "llama_server", "vllm_server"])
async def test_one_line_of_config_chooses_the_engine(
    nats_server: NatsServer, bus: Bus, tmp_path: Path, name: str
) -> None:
    prepare(DATA, lambda line: None)
    config = tmp_path / "hasten.toml"
    assert await _told(name, nats_server, bus, config) == await _told("llama", nats_server, bus, config)
