"""Gateways and orchestrators as processes that are killed between two events of a stream that is gone on with."""

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
from hasten.discovery import survey
from hasten.keys import create
from hasten.messages.streamed import STREAM
from hasten.nats_server import NatsServer
from loadtest.staleness.fleet import Member

ANSWER = " ".join(f"word{at}" for at in range(40))
ASK = {"messages": [{"role": "user", "content": "When does the tide rise?"}], "cache": {"mode": "off"}}


class Gateways:
    """Gateway processes by their URL."""

    def __init__(self, url: str, bus: Bus, folder: Path) -> None:
        self._url, self._bus, self._folder = url, bus, folder
        self.running: dict[str, Member] = {}

    async def add(self) -> str:
        command = [sys.executable, "-m", "hasten.gateway", "--data", str(self._folder)]
        environ = {"HASTEN_GATEWAY_HTTP": "127.0.0.1:0"}
        made = Member("gateway", command, environ, self._url, self._folder / "gateway.log")
        await made.start()
        async with asyncio.timeout(60):
            while not (new := await self._urls() - set(self.running)):
                await asyncio.sleep(0.05)
        (url,) = new
        self.running[url] = made
        return url

    async def _urls(self) -> set[str]:
        return {str(one.report["http"]) for one in await survey(self._bus) if one.name == "gateway"}

    async def close(self) -> None:
        for member in self.running.values():
            await member.stop()


class Reader:
    """Reads /v1/stream until its connection breaks or the answer has ended."""

    def __init__(self) -> None:
        self.text, self.last, self.kinds = "", "", list[str]()

    async def read(self, url: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"} | ({"Last-Event-ID": self.last} if self.last else {})
        async with (
            httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as http,
            http.stream("POST", "/v1/stream", json=ASK) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last = value
                elif name == "data":
                    self._take(json.loads(value))

    def _take(self, event: dict[str, Any]) -> None:
        self.kinds.append(event["type"])
        self.text += event.get("text", "")

    async def has_read(self, end: str) -> None:
        async with asyncio.timeout(60):
            while not self.text.endswith(end):
                await asyncio.sleep(0.01)


@pytest_asyncio.fixture
async def fleet(nats_server: NatsServer, bus: Bus, tmp_path: Path) -> AsyncIterator[tuple[Gateways, Orchestrators]]:
    gateways = Gateways(nats_server.url, bus, tmp_path)
    orchestrators = Orchestrators(nats_server.url, bus, tmp_path)
    yield gateways, orchestrators
    await gateways.close()
    await orchestrators.close()


@pytest.mark.parametrize("dies", ["gateway", "gateway and orchestrator"])
async def test_a_stream_outlives_what_is_killed(bus: Bus, fleet: tuple[Gateways, Orchestrators], dies: str) -> None:
    gateways, orchestrators = fleet
    peers = Scripted(bus)
    peers.answer = ANSWER
    await peers.start()
    gate, key = Gate(peers, 20), await create(bus, "acme")
    lost = await orchestrators.add()
    one, other = await gateways.add(), await gateways.add()
    reader = Reader()
    reading = asyncio.create_task(reader.read(one, key))
    await reader.has_read("word19")
    await orchestrators.add()
    async with asyncio.timeout(60):
        while (await bus.js.stream_info(STREAM)).state.messages <= 20:  # what both know dies with them
            await asyncio.sleep(0.05)
    gateways.running[one].signal(signal.SIGKILL)
    if "orchestrator" in dies:
        orchestrators.running[lost].signal(signal.SIGKILL)
    with pytest.raises(httpx.HTTPError):
        await reading
    gate.open()
    await reader.read(other, key)
    assert reader.text == ANSWER
    assert reader.kinds.count("accepted") == 1
    assert reader.kinds[-1] == "done"
    await peers.close()
