"""A stream is stopped when its reader has gone or is told to stop, and leaves nothing; others go on."""

import asyncio

import msgspec
import pytest
from nats.aio.msg import Msg
from patience import until
from small_talk import TELL, Company, Tell, tell
from stream_rig import Sender, ask, cancel, chunks, read

from hasten.bus import Bus
from hasten.messages.chat import Done
from hasten.nats_server import NatsServer
from hasten.service import Call


@pytest.mark.parametrize("how", ["for_ever", "silent"])
async def test_leaving_a_stream_stops_its_sender(bus: Bus, company: Company, how: str) -> None:
    sender = Sender()
    service = await company.hear(TELL, getattr(sender, how))
    async with await ask(bus):
        await sender.begun.wait()
    await asyncio.wait_for(sender.stopped.wait(), 20)
    await until(lambda: service.active == 0)
    assert bus.outstanding == 0


async def test_a_reader_that_vanishes_without_a_word_stops_its_sender(
    nats_server: NatsServer, bus: Bus, company: Company
) -> None:
    """The server's 503 for a chunk that nobody takes; a plain client neither pings nor cancels."""
    sender = Sender()
    service = await company.hear(TELL, sender.for_ever)
    reader = await Bus.connect(nats_server.url)
    inbox = reader.client.new_inbox()
    taken: list[Msg] = []

    async def take(msg: Msg) -> None:
        taken.append(msg)

    await reader.client.subscribe(inbox, cb=take)
    await reader.client.publish("hasten.v1.tell.acme", b"{}", reply=inbox)
    await until(lambda: len(taken) > 5)
    assert [msgspec.json.decode(msg.data)["type"] for msg in taken[:3]] == ["accepted", "chunk", "chunk"]
    assert not any(msg.headers for msg in taken), "a reader that is there gets the events and nothing else"
    await reader.close()
    await asyncio.wait_for(sender.stopped.wait(), 20)
    await until(lambda: service.active == 0)
    assert bus.outstanding == 0


async def test_a_silent_sender_learns_from_its_pings_that_the_reader_vanished(
    nats_server: NatsServer, bus: Bus, company: Company
) -> None:
    sender = Sender()
    service = await company.hear(TELL, sender.silent)
    reader = await Bus.connect(nats_server.url)
    await ask(reader)
    await sender.begun.wait()
    await reader.client.close()
    await asyncio.wait_for(sender.stopped.wait(), 20)
    await until(lambda: service.active == 0)
    assert bus.outstanding == 0


async def test_a_cancel_stops_only_that_request_of_that_tenant(bus: Bus, company: Company) -> None:
    service = await company.hear(TELL, tell)
    streams = {
        (tenant, request_id): await ask(bus, count, pause_s=0.01, tenant=tenant, request_id=request_id)
        for tenant, request_id, count in (
            ("acme", "r1", 1_000_000),
            ("acme", "r2", 60),
            ("other", "r1", 60),
            ("other", "r2", 60),
        )
    }
    await cancel(bus, "r1", 0.1)
    await cancel(bus, "r9")
    whole = {key: await read(stream) for key, stream in streams.items()}
    cancelled = whole.pop(("acme", "r1"))
    assert cancelled[-1].code == "cancelled"
    assert cancelled[-1].tokens_sent == len(chunks(cancelled))
    for events in whole.values():
        assert isinstance(events[-1], Done)
        assert chunks(events) == list(range(60))
    await until(lambda: service.active == 0)
    endpoint = service.endpoints[0]
    assert (endpoint.num_requests, endpoint.num_errors) == (4, 0), "who is not wanted any more has not failed"


async def test_a_cancel_reaches_a_request_in_the_line(bus: Bus, company: Company) -> None:
    sender = Sender()
    service = await company.hear(TELL, sender.silent, limit=1, waiting=5)
    first = await ask(bus, request_id="first")
    await sender.begun.wait()
    second = await ask(bus, request_id="second")
    await until(lambda: service.active == 2)
    await cancel(bus, "second")
    assert (await read(second))[-1].code == "cancelled"
    assert len(sender.calls) == 1
    await first.aclose()
    await until(lambda: service.active == 0)


async def test_the_same_id_twice_is_refused_while_the_first_is_answered(bus: Bus, company: Company) -> None:
    release = asyncio.Event()

    async def held(body: Tell, call: Call) -> None:
        await release.wait()
        await tell(body, call)

    await company.hear(TELL, held)
    first = await ask(bus, request_id="same")
    second = await read(await ask(bus, request_id="same"))
    assert [event.code for event in second] == ["bad_request"]
    release.set()
    assert isinstance((await read(first))[-1], Done)
    assert isinstance((await read(await ask(bus, request_id="same")))[-1], Done), "later it is free again"


async def test_streams_left_in_the_middle_leave_nothing(bus: Bus, company: Company) -> None:
    service = await company.hear(TELL, tell, limit=300)
    for _ in range(3):
        for stream in [await ask(bus, 10_000, pause_s=0.01) for _ in range(100)]:
            await anext(stream)
            await stream.aclose()
    await until(lambda: service.active == 0)
    assert bus.outstanding == 0


async def test_a_reader_that_is_cancelled_leaves_its_stream(bus: Bus, company: Company) -> None:
    sender = Sender()
    await company.hear(TELL, sender.silent)

    async def reading() -> None:
        async with await ask(bus) as stream:
            await read(stream)

    task = asyncio.create_task(reading())
    await sender.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(sender.stopped.wait(), 20)
    await until(lambda: bus.outstanding == 0)
