"""A worker that is well, and the last one there is, is asked again when only the way to it was lost for a moment."""

import asyncio
import time

from patience import until
from replica_rig import events_of, running, text
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.messages.chat import CHAT, Chunk, Done
from hasten.messages.failure import Failure
from hasten.messages.generate import GENERATE, Generate
from hasten.nats_server import NatsServer
from hasten.service import Call, Service

ASK = {"messages": [{"role": "user", "content": "When does the tide rise?"}]}


async def answered(
    server: NatsServer, bus: Bus, lost: int, said_by_worker: Failure | None = None
) -> tuple[list[object], list[str]]:
    """The events of a request whose only worker loses a chunk in so many first attempts, and what each went on from."""
    begun: list[str] = []

    async def generate(request: Generate, call: Call) -> None:
        begun.append(request.continues)
        await call.send(Chunk(seq=0, text=["The ", "tide ", "rises ", "at ", "noon."][len(begun) - 1]))
        if len(begun) <= lost:
            await call.send(said_by_worker or Chunk(seq=2, text="never read"))
            return
        await call.send(Done(finish_reason="stop", model="m", chunks=1))

    peers = Scripted(bus, workers=("w1",), real=(GENERATE,))
    worker = Service(bus, "worker", "Loses chunks.")
    worker.answer(GENERATE, generate, limit=10, slug="m", worker="w1")
    await peers.start()
    await worker.start()
    try:
        async with running(server, 1, silence_s=20) as replicas:
            events = await events_of(await replicas.client.stream(CHAT, ASK, tenant="acme", idle_s=20))
    finally:
        await worker.close()
        await peers.close()
    return events, begun


async def test_the_last_worker_is_asked_again(nats_server: NatsServer, bus: Bus) -> None:
    events, begun = await answered(nats_server, bus, lost=2)
    assert isinstance(events[-1], Done)
    assert (text(events), begun) == ("The tide rises ", ["", "The ", "The tide "])


async def test_as_often_as_others_would_be(nats_server: NatsServer, bus: Bus) -> None:
    events, begun = await answered(nats_server, bus, lost=5)
    assert isinstance(events[-1], Failure)
    assert (events[-1].code, events[-1].tokens_sent, len(begun)) == ("incomplete", 3, 3)


async def test_not_when_it_has_said_itself_that_it_cannot(nats_server: NatsServer, bus: Bus) -> None:
    broken = Failure(code="upstream", detail="the engine broke")
    events, begun = await answered(nats_server, bus, lost=5, said_by_worker=broken)
    assert isinstance(events[-1], Failure)
    assert (events[-1].code, len(begun)) == ("upstream", 1)


async def test_after_an_outage_workers_are_waited_for_until_they_are_heard_of_again(
    nats_server: NatsServer, bus: Bus
) -> None:
    begun: list[str] = []

    async def generate(request: Generate, call: Call) -> None:
        begun.append(request.continues)
        await call.send(Chunk(seq=0, text="The " if len(begun) == 1 else "tide rises."))
        if len(begun) == 1:
            peers.workers, replicas.all[0].bus._outage._returned_s = (), time.monotonic() + 600
            await call.send(Chunk(seq=2, text="never read"))
        else:
            await call.send(Done(finish_reason="stop", model="m", chunks=1))

    peers = Scripted(bus, workers=("w1",), real=(GENERATE,))
    worker = Service(bus, "worker", "Loses a chunk.")
    worker.answer(GENERATE, generate, limit=10, slug="m", worker="w1")
    await peers.start()
    await worker.start()
    async with running(nats_server, 1, silence_s=20) as replicas:
        asked = asyncio.create_task(events_of(await replicas.client.stream(CHAT, ASK, tenant="acme", idle_s=20)))
        await until(lambda: len(peers.routes) >= 4)
        peers.workers = ("w1",)
        events = await asked
    await worker.close()
    await peers.close()
    assert (text(events), begun) == ("The tide rises.", ["", "The "])
