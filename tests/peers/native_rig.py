"""Gateways that stream native events before real orchestrators, and readers that can be cut off and come back."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest_asyncio
from patience import until
from replica_rig import ASK, Replicas, peers, replicas
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.gateway.service import Gateway, build
from hasten.gateway.settings import Settings
from hasten.keys import create
from hasten.nats_server import NatsServer

__all__ = ["ASK", "peers", "replicas"]
PATH = "/v1/stream"


class Seen(msgspec.Struct, frozen=True):
    """An event as a reader gets it."""

    id: str
    kind: str
    data: dict[str, Any]


class Reading:
    """One reader of SSE; `events` grows while it reads."""

    def __init__(self, http: httpx.AsyncClient, method: str, path: str, **options: Any) -> None:
        self.events: list[Seen] = []
        self.comments = 0
        self.status = 0
        self.body = b""
        self.request_id = ""
        self.task = asyncio.create_task(self._read(http, method, path, options))

    async def _read(self, http: httpx.AsyncClient, method: str, path: str, options: dict[str, Any]) -> None:
        async with http.stream(method, path, **options) as response:
            self.status = response.status_code
            self.request_id = response.headers.get("x-hasten-request-id", "")
            if self.status != 200:
                self.body = await response.aread()
                return
            fields: dict[str, str] = {}
            async for line in response.aiter_lines():
                if not line and fields:
                    self.events.append(Seen(fields.get("id", ""), fields["event"], json.loads(fields["data"])))
                    fields = {}
                elif line.startswith(":"):
                    self.comments += 1
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value

    @property
    def text(self) -> str:
        return text_of(self.events)

    async def has(self, count: int) -> None:
        """Returns when it has read so many events."""
        await until(lambda: len(self.events) >= count or self.task.done())

    async def end(self) -> list[Seen]:
        """All events, when the answer has ended."""
        await self.task
        return self.events

    async def cut(self) -> list[Seen]:
        """Loses the connection; what had been read."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        return self.events


def text_of(events: list[Seen]) -> str:
    return "".join(one.data.get("text", "") for one in events if one.kind == "chunk")


class Site:
    """A gateway on a connection of its own."""

    def __init__(self, bus: Bus, gateway: Gateway, key: str) -> None:
        self.bus, self.gateway = bus, gateway
        self.http = httpx.AsyncClient(
            base_url=gateway.url, headers={"Authorization": f"Bearer {key}"}, timeout=60, verify=False
        )

    def ask(self, body: dict[str, Any] = ASK, **headers: str) -> Reading:
        return Reading(self.http, "POST", PATH, json=body, headers=headers)

    def go_on(self, last: str, **options: Any) -> Reading:
        headers = {"Last-Event-ID": last, **options.pop("headers", {})}
        return Reading(self.http, "GET", f"{PATH}/{last.partition('.')[0]}", headers=headers, **options)

    async def die(self) -> None:
        """Takes its connection to NATS away, and then its readers', as the end of its process would."""
        await self.bus._client.abandon()
        for task in list(self.gateway._http._server.server_state.tasks):
            task.cancel()
        await self.http.aclose()
        await self.gateway._http.close(0)


@contextlib.asynccontextmanager
async def site(server: NatsServer, key: str, **settings: Any) -> AsyncIterator[Site]:
    bus = await Bus.connect(server.url)
    gateway = build(Settings(http="127.0.0.1:0", **settings), bus)
    await gateway.start()
    made = Site(bus, gateway, key)
    try:
        yield made
    finally:
        await made.http.aclose()
        with contextlib.suppress(Exception):
            await gateway.close()
        await bus.close()


class Sites:
    """Two gateways before two orchestrators."""

    def __init__(self, one: Site, other: Site, orchestrators: Replicas, peers: Scripted, key: str) -> None:
        self.one, self.other, self.orchestrators, self.peers, self.key = one, other, orchestrators, peers, key


@pytest_asyncio.fixture
async def sites(nats_server: NatsServer, replicas: Replicas, peers: Scripted, bus: Bus) -> AsyncIterator[Sites]:
    key = await create(bus, "acme")
    for _ in range(2):
        await replicas.add()
    async with site(nats_server, key) as one, site(nats_server, key) as other:
        yield Sites(one, other, replicas, peers, key)
