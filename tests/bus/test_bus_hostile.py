"""Bytes that nats-py cannot decode: the one message is refused, and everything else goes on."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from hasten.bus import Bus
from hasten.journal import Reader, ensure_stream
from hasten.messages.change import CHANGE, Change
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.nats_server import NatsServer
from hasten.service import Call, Service

HOSTILE = {
    "reply": b"PUB hasten.v1.embed.demo _INBOX.demo.\xff 2\r\n{}\r\n",
    "subject": b"PUB hasten.v1.embed.\xff _INBOX.demo.x 2\r\n{}\r\n",
    "short header": b"HPUB hasten.v1.embed.demo _INBOX.x 8 10\r\nNATS/1.0{}\r\n",
    "no header": b"HPUB hasten.v1.embed.demo _INBOX.x 4 6\r\nXX\r\n{}\r\n",
    "status": b"HPUB hasten.v1.embed.demo _INBOX.x 14 16\r\nNATS/1.0 \xff\r\n\r\n{}\r\n",
}


async def embed(_: Embed, __: Call) -> Embedded:
    return Embedded(vectors=[], dim=1, model="m")


@pytest_asyncio.fixture
async def service(nats_server: NatsServer) -> AsyncIterator[Service]:
    bus = await Bus.connect(nats_server.url)
    made = Service(bus, "embedder", "x")
    made.answer(EMBED, embed, limit=10)
    await made.start()
    yield made
    await made.close()
    await bus.close()


async def send_raw(server: NatsServer, frame: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await reader.readline()
    writer.write(b'CONNECT {"verbose":false,"headers":true}\r\n' + frame + b"PING\r\n")
    await reader.readuntil(b"PONG")
    writer.close()


@pytest.mark.parametrize("kind", sorted(HOSTILE))
async def test_a_hostile_message_stops_nothing(nats_server: NatsServer, bus: Bus, service: Service, kind: str) -> None:
    await send_raw(nats_server, HOSTILE[kind])
    answers = [await bus.request(EMBED, Embed(texts=[]), tenant="acme") for _ in range(3)]
    assert all(isinstance(answer, Embedded) for answer in answers)


async def test_a_hostile_subject_in_the_stream_is_read_past(nats_server: NatsServer, bus: Bus) -> None:
    await ensure_stream(bus)
    await send_raw(nats_server, b"PUB hasten.v1.document.demo.\xff 2\r\n{}\r\n")
    seen: list[int] = []
    reader = Reader(bus, lambda entry: seen.append(entry.sequence))
    await bus.store(CHANGE, Change(table="t", key=1), source="shop")
    await reader.start()
    assert seen == [1, 2]
    await reader.close()
