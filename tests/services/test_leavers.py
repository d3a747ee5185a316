"""A hundred callers who leave at random moments, in every way, and what the services hold afterwards: nothing.

`python -m loadtest.leavers --times 1000` does the same to all services as processes.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from patience import until
from replica_rig import Replicas
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.client import Hasten
from hasten.gateway.service import Gateway
from hasten.gateway.service import build as build_gateway
from hasten.gateway.settings import Settings as GatewaySettings
from hasten.keys import create
from hasten.messages.chat import Chunk, Done
from hasten.messages.failure import Failed
from hasten.messages.generate import GENERATE
from hasten.models import EngineConfig, Model
from hasten.nats_server import NatsServer
from hasten.orchestrator.settings import Settings
from hasten.worker.service import Worker
from hasten.worker.service import build as build_worker
from hasten.worker.settings import Settings as WorkerSettings

LEAVERS = 100
LONGEST_S = 0.4
MODEL = Model(name="m", slug="m", engine=EngineConfig(kind="sim", slots=4, sim_network_ms=20, sim_decode_per_s=200.0))


class House:
    """Two orchestrators, a gateway and a worker of the simulator, each on a connection of its own."""

    def __init__(self, url: str, replicas: Replicas, gateway: Gateway, worker: Worker, key: str) -> None:
        self.url, self.replicas, self.gateway, self.worker, self.key = url, replicas, gateway, worker, key
        self.buses: list[Bus] = []

    def held(self) -> dict[str, int]:
        """All that a request may hold anywhere, by what it is."""
        units = [replica.unit for replica in self.replicas.all]
        return {
            "calls": sum(len(unit.service.requests.calls) + unit.service.active for unit in units),
            "flights": sum(len(unit._flights.all) for unit in units),
            "seats": sum(len(unit._seats) for unit in units),
            "leases": sum(len(unit._flights._leading) + len(unit._flights._claims) for unit in units),
            "slots": self.worker._line.active + self.worker._line.queued,
            "generations": len(self.worker._supervisor.engine._running) + self.worker._service.active,  # type: ignore[attr-defined]
            "chats": self.gateway.report()["chats"] + self.gateway.report()["connections"],
            "outstanding": sum(bus.outstanding for bus in self.buses),
            "subscriptions": sum(bus.subscriptions for bus in self.buses),
        }


@pytest_asyncio.fixture
async def house(nats_server: NatsServer, bus: Bus) -> AsyncIterator[House]:
    peers = Scripted(bus, workers=("w1",), real=(GENERATE,))
    await peers.start()
    client, edge, work = [await Bus.connect(nats_server.url) for _ in range(3)]
    worker = build_worker(WorkerSettings(worker="w1"), work, [MODEL])
    await worker.start()
    replicas = Replicas(nats_server, client, Settings(exact_wait_ms=5, again_s=0, grace_s=0.5))
    for _ in range(2):
        await replicas.add()
    gateway = build_gateway(GatewaySettings(http="127.0.0.1:0"), edge)
    key = await create(edge, "acme", "test")
    await gateway.start()
    made = House(nats_server.url, replicas, gateway, worker, key)
    made.buses = [client, edge, work, bus, *(replica.bus for replica in replicas.all)]
    yield made
    await gateway.drain()
    await gateway.close()
    await replicas.close()
    await worker.drain()
    await worker.close()
    await peers.close()
    for one in (client, edge, work):
        await one.close()


def body(number: int) -> dict[str, Any]:
    """Every third question is asked three times."""
    return {"messages": [{"role": "user", "content": f"tell me about the number {number // 3} in many words"}]}


async def leaves_the_loop(house: House, number: int, after_s: float) -> None:
    async with asyncio.timeout(None) as limit:
        async for _ in Hasten(house.replicas.client, "acme").chat(body(number)):
            limit.reschedule(asyncio.get_running_loop().time() + after_s)


async def cancels(house: House, number: int, after_s: float) -> None:
    async with asyncio.timeout(after_s):
        await Hasten(house.replicas.client, "acme").ask(body(number))


async def is_late(house: House, number: int, after_s: float) -> None:
    await Hasten(house.replicas.client, "acme").ask(body(number), timeout_s=after_s)


async def vanishes(house: House, number: int, after_s: float) -> None:
    lost = await Bus.connect(house.url)
    asking = asyncio.ensure_future(Hasten(lost, "acme").ask(body(number)))
    await asyncio.wait([asking], timeout=after_s)
    await lost._client.abandon()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def hangs_up(house: House, number: int, after_s: float) -> None:
    port = int(house.gateway.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    content = json.dumps({**body(number), "stream": number % 2 == 0})
    head = f"Host: x\r\nAuthorization: Bearer {house.key}\r\nContent-Length: {len(content)}"
    writer.write(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n\r\n{content}".encode())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(after_s):
            while await reader.read(65536):
                pass
    writer.close()
    await writer.wait_closed()


WAYS = (leaves_the_loop, cancels, is_late, vanishes, hangs_up)


@pytest.mark.parametrize("seed", [1, 2])
async def test_who_leaves_at_a_random_moment_leaves_nothing_behind(house: House, seed: int) -> None:
    async def whole() -> None:
        answered = await Hasten(house.replicas.client, "acme").ask("what is left when all have gone")
        assert answered.finish_reason == "stop"

    await whole()
    await until(lambda: not any(value for name, value in house.held().items() if name != "subscriptions"))
    before, tasks = house.held(), len(asyncio.all_tasks())
    rng = random.Random(seed)

    async def one(number: int) -> None:
        with contextlib.suppress(TimeoutError, Failed):
            await rng.choice(WAYS)(house, number, rng.uniform(0, LONGEST_S))

    await asyncio.gather(*(one(number) for number in range(LEAVERS // 2)))
    await until(lambda: house.held() == before)
    await until(lambda: len(asyncio.all_tasks()) <= tasks)
    await whole()


async def test_a_follower_reads_on_whoever_leaves(house: House) -> None:
    async def stays() -> str:
        return (await Hasten(house.replicas.client, "acme").ask(body(0))).text

    async def goes(number: int) -> None:
        events = Hasten(house.replicas.client, "acme").chat(body(0))
        async for event in events:
            if (isinstance(event, Chunk) and event.seq >= number) or isinstance(event, Done):
                break
        await events.aclose()  # type: ignore[attr-defined]

    *_, first, second = await asyncio.gather(*(goes(number) for number in range(10)), stays(), stays())
    assert first == second
    assert first is not None
    assert first.endswith(".")
    assert len(first.split()) >= 24, "the whole of what the simulator says"
