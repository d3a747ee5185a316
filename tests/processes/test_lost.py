"""Orchestrators and workers as processes that are killed in mid-stream: their readers read the whole answer, once."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from orchestrator_rig import Orchestrators
from replica_rig import Gate
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.chat_stream import ChatStream
from hasten.client import Hasten
from hasten.deadline import now_ms
from hasten.gateway.service import Gateway, build
from hasten.gateway.settings import Settings
from hasten.keys import create
from hasten.messages.chat import Chunk, Done, Turn
from hasten.messages.generate import GENERATE, Generate
from hasten.nats_server import NatsServer
from hasten.worker.engines.sim import answer_tokens
from loadtest.staleness.fleet import Member

PATIENCE_S = 55.0
"""NATS hands every other resume to the orchestrator that hangs."""
ANSWER = " ".join(f"word{at}" for at in range(60))
ASK = {"messages": [{"role": "user", "content": "When does the tide rise?"}], "cache": {"mode": "off"}}
WORKERS = """
[[models]]
name = "m"
engine = { kind = "sim", sim_decode_per_s = 20.0 }
"""


@pytest_asyncio.fixture
async def orchestrators(nats_server: NatsServer, bus: Bus, tmp_path: Path) -> AsyncIterator[Orchestrators]:
    made = Orchestrators(nats_server.url, bus, tmp_path)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def gateway(nats_server: NatsServer) -> AsyncIterator[Gateway]:
    bus = await Bus.connect(nats_server.url)
    made = build(Settings(http="127.0.0.1:0", resume_s=PATIENCE_S), bus)
    await made.start()
    yield made
    await made.drain()
    await made.close()
    await bus.close()


class Reader:
    """Reads an answer in a task; `text` grows meanwhile."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.text = ""
        self.ended: Any = None
        self._more = asyncio.Event()

    def _add(self, text: str) -> None:
        self.text += text
        self._more.set()

    async def by_nats(self, hasten: Hasten) -> None:
        stream = ChatStream(hasten.bus, "acme", ASK, deadline_ms=now_ms() + PATIENCE_S * 1000, resume_s=PATIENCE_S)
        async for event in await stream.open():
            if isinstance(event, Chunk):
                self.seqs.append(event.seq)
                self._add(event.text)
            self.ended = event

    async def by_http(self, url: str, key: str) -> None:
        headers, body = {"Authorization": f"Bearer {key}"}, {**ASK, "stream": True}
        async with (
            httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as http,
            http.stream("POST", "/v1/chat/completions", json=body) as answer,
        ):
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    frame = json.loads(line.removeprefix("data: "))
                    self.ended = frame
                    for choice in frame.get("choices", ()):
                        self._add(choice["delta"].get("content") or "")

    async def has_read(self, words: int) -> None:
        while len(self.text.split()) < words:
            self._more.clear()
            await self._more.wait()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_streams_outlive_their_orchestrator_over_nats_and_over_http(
    nats_server: NatsServer, bus: Bus, orchestrators: Orchestrators, gateway: Gateway, how: signal.Signals
) -> None:
    peers = Scripted(bus)
    peers.answer = ANSWER
    await peers.start()
    gate, key = Gate(peers, 30), await create(bus, "acme", "test")
    lost = await orchestrators.add()
    nats, http = Reader(), Reader()
    async with Hasten.connect(nats_server.url, tenant="acme") as hasten:
        reading = [
            asyncio.create_task(nats.by_nats(hasten)),
            asyncio.create_task(http.by_http(gateway.url, key)),
        ]
        await asyncio.gather(nats.has_read(30), http.has_read(30))
        await orchestrators.add()
        orchestrators.running[lost].signal(how)
        gate.open()
        await asyncio.gather(*reading)
    assert (nats.text, http.text) == (ANSWER, ANSWER)
    assert nats.seqs == list(range(len(nats.seqs)))
    assert isinstance(nats.ended, Done)
    assert nats.ended.chunks == len(nats.seqs)
    assert http.ended["choices"][0]["finish_reason"] == "stop"
    await peers.close()


async def test_the_text_of_a_worker_that_is_killed_is_finished_by_another(
    nats_server: NatsServer, bus: Bus, orchestrators: Orchestrators, tmp_path: Path
) -> None:
    """The simulator writes what only depends on the prompt and the position, and goes on with its own text only."""
    (tmp_path / "hasten.toml").write_text(WORKERS)
    command = [sys.executable, "-m", "hasten.worker", "--config", str(tmp_path / "hasten.toml")]
    workers = [
        Member("worker", command, {"HASTEN_WORKER_WORKER": name}, nats_server.url, tmp_path / f"{name}.log")
        for name in ("w1", "w2")
    ]
    peers = Scripted(bus, real=(GENERATE,))
    await peers.start()
    await asyncio.gather(*(worker.start() for worker in workers), orchestrators.add())
    reader = Reader()
    try:
        async with Hasten.connect(nats_server.url, tenant="acme") as hasten:
            reading = asyncio.create_task(reader.by_nats(hasten))
            await reader.has_read(3)
            workers[0].signal(signal.SIGKILL)
            await reading
    finally:
        await asyncio.gather(*(worker.stop() for worker in workers))
    asked = Generate(messages=[Turn(role="user", content="When does the tide rise?")])
    assert reader.text == "".join(answer_tokens(asked, ""))
    assert reader.seqs == list(range(len(reader.seqs)))
    await peers.close()
