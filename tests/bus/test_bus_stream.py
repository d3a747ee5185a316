"""A stream of replies: in order, whole or failed, ended once, and stopped when its reader has gone."""

import asyncio
import time
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from nats.aio.msg import Msg
from patience import until
from small_talk import ECHO, TELL, Company, Said, Say, Tell, tell
from stream_rig import Sender, ask, cancel, chunks, read

from hasten.bus import Bus
from hasten.deadline import REQUEST_ID, TENANT, now_ms
from hasten.messages.chat import Accepted, ChatReply, Chunk, Done, Ping
from hasten.messages.failure import Failed, Failure
from hasten.messages.generate import GENERATE, Generate
from hasten.nats_server import NatsServer
from hasten.service import PING_S, Call


async def raw_events(bus: Bus, body: bytes, *, headers: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """All that a plain client receives until a second after the end."""
    events: list[dict[str, Any]] = []

    async def take(msg: Msg) -> None:
        events.append(msgspec.json.decode(msg.data))

    inbox = bus.client.new_inbox()
    subscription = await bus.client.subscribe(inbox, cb=take)
    await bus.client.publish("hasten.v1.tell.acme", body, reply=inbox, headers=headers)
    await until(lambda: any(event["type"] in ("done", "failure") for event in events))
    await asyncio.sleep(1.2 * PING_S)
    await subscription.unsubscribe()
    return events


@pytest.mark.parametrize("count", [0, 1, 10_000])
async def test_a_stream_is_whole_and_in_order(bus: Bus, company: Company, count: int) -> None:
    """The end is a message of its own that says how many there were."""
    await company.hear(TELL, tell)
    events = await read(await ask(bus, count, request_id="r-1"))
    assert isinstance(events[0], Accepted)
    assert events[0].request_id == "r-1"
    assert events[1:-1] == [Chunk(seq=seq, text=f"{seq} ") for seq in range(count)]
    assert events[-1] == Done(finish_reason="stop", chunks=count)
    assert bus.outstanding == 0


async def test_many_streams_at_once_do_not_mix(nats_server: NatsServer, bus: Bus, company: Company) -> None:
    await company.hear(TELL, tell, limit=200)
    other = await Bus.connect(nats_server.url)
    counts = [number * 7 % 90 for number in range(100)]
    whole = await asyncio.gather(*[read(await ask(other, count)) for count in counts])
    assert [chunks(events) for events in whole] == [list(range(count)) for count in counts]
    assert (bus.outstanding, other.outstanding) == (0, 0)
    await other.close()


async def test_an_error_ends_the_stream_with_what_was_sent(bus: Bus, company: Company) -> None:
    async def dies(_: Tell, call: Call) -> None:
        for seq in range(3):
            await call.send(Chunk(seq=seq, text="x"))
        raise ConnectionError("no more")

    await company.hear(TELL, dies)
    events = await read(await ask(bus))
    assert chunks(events) == [0, 1, 2]
    assert (events[-1].code, events[-1].tokens_sent) == ("internal", 3)


async def test_a_handler_that_says_no_end_is_incomplete(bus: Bus, company: Company) -> None:
    async def forgets(_: Tell, call: Call) -> None:
        await call.send(Chunk(seq=0, text="x"))

    await company.hear(TELL, forgets)
    events = await read(await ask(bus))
    assert (events[-1].code, events[-1].tokens_sent) == ("incomplete", 1)


async def test_nothing_follows_the_end(bus: Bus, company: Company) -> None:
    async def talkative(_: Tell, call: Call) -> None:
        await call.send(Done(finish_reason="stop"))
        await call.send(Done(finish_reason="stop"))
        await call.send(Chunk(seq=0, text="x"))
        await call.send(Failure(code="internal"))
        raise ValueError("after the end")

    await company.hear(TELL, talkative)
    events = await raw_events(bus, b"{}", headers={REQUEST_ID: "r"})
    assert [event["type"] for event in events] == ["accepted", "done"]


async def test_the_end_is_said_once_when_it_and_a_cancel_meet(bus: Bus, company: Company) -> None:
    async def quick(_: Tell, call: Call) -> None:
        for seq in range(20):
            await call.send(Chunk(seq=seq, text="x"))
            await asyncio.sleep(0)
        await call.send(Done(finish_reason="stop", chunks=20))

    await company.hear(TELL, quick)
    for number in range(60):
        stream = await ask(bus, request_id=f"r{number}")
        cancelling = asyncio.create_task(cancel(bus, f"r{number}", number * 0.0001))
        ends = [event for event in await read(stream) if isinstance(event, Done | Failure)]
        assert len(ends) == 1
        assert isinstance(ends[0], Done) or ends[0].code == "cancelled"
        await cancelling
    assert bus.outstanding == 0


async def test_silence_is_filled_with_pings_also_in_the_line(bus: Bus, company: Company) -> None:
    sender = Sender()
    await company.hear(TELL, sender.silent, limit=1, waiting=1)
    first = await ask(bus, request_id="first")
    await sender.begun.wait()
    second = await ask(bus, request_id="second", idle_s=3 * PING_S)
    assert [type(await anext(first)) for _ in range(3)] == [Accepted, Ping, Ping]
    assert [type(await anext(second)) for _ in range(2)] == [Ping, Ping]
    await first.aclose()
    assert [type(event) for event in [await anext(second) for _ in range(3)] if not isinstance(event, Ping)] == [
        Accepted
    ]
    await second.aclose()


async def test_pings_are_for_silence_only(bus: Bus, company: Company) -> None:
    at = [0.0]

    async def steady(_: Tell, call: Call) -> None:
        at[0] = time.monotonic()
        for seq in range(30):
            at.append(time.monotonic())
            await call.send(Chunk(seq=seq, text="x"))
            await asyncio.sleep(PING_S / 12)
        at.append(time.monotonic())
        await call.send(Done(finish_reason="stop", chunks=30))

    await company.hear(TELL, steady)
    pings = [event async for event in await ask(bus) if isinstance(event, Ping)]
    silences = [after - before for before, after in pairwise(at) if after - before > PING_S / 2]
    assert len(pings) <= len(silences), "but for those in which the machine stood still"


async def test_the_deadline_ends_a_stream_on_both_sides(bus: Bus, company: Company) -> None:
    sender = Sender()
    await company.hear(TELL, sender.for_ever)
    for most_ms in (300, 3000, 12_000):
        events = await read(await ask(bus, deadline_ms=now_ms() + most_ms))
        assert events[-1].code == "deadline"
        if chunks(events):
            break
    assert events[-1].tokens_sent == len(chunks(events)) > 0
    await asyncio.wait_for(sender.stopped.wait(), 20)
    assert bus.outstanding == 0


async def test_refused_requests_are_not_accepted(bus: Bus, company: Company) -> None:
    await company.hear(TELL, tell, limit=0)
    assert [event["type"] for event in await raw_events(bus, b"{}")] == ["failure"]
    assert [event["type"] for event in await raw_events(bus, b"{")] == ["failure"]


async def test_a_chunk_too_large_ends_the_stream(bus: Bus, company: Company) -> None:
    async def much(_: Tell, call: Call) -> None:
        await call.send(Chunk(seq=0, text="x"))
        await call.send(Chunk(seq=1, text="x" * 2_000_000))

    await company.hear(TELL, much)
    events = await read(await ask(bus))
    assert (events[-1].code, events[-1].tokens_sent) == ("too_large", 1)


async def test_an_end_too_large_to_be_sent_is_not_silence(bus: Bus, company: Company) -> None:
    async def much(_: Tell, call: Call) -> None:
        await call.send(Done(finish_reason="x" * 2_000_000))

    await company.hear(TELL, much)
    assert (await read(await ask(bus)))[-1].code == "too_large"


async def test_admission_is_before_accepted(bus: Bus, company: Company) -> None:
    def admit(body: Tell, _: Call) -> None:
        if body.count == 1:
            raise Failed("overloaded", "no", retry_after_ms=5)
        if body.count == 2:
            raise ValueError("broken")

    await company.hear(TELL, tell, admit=admit)
    assert [event.code for event in await read(await ask(bus, 1))] == ["overloaded"]
    assert [event.code for event in await read(await ask(bus, 2))] == ["internal"]
    assert isinstance((await read(await ask(bus, 3)))[0], Accepted)


async def test_a_request_too_large_raises_and_leaves_nothing(bus: Bus) -> None:
    topic = msgspec.structs.replace(ECHO, kind="stream", reply=ChatReply)
    with pytest.raises(Failed, match="too_large"):
        await bus.stream(topic, Say(text="x" * 2_000_000), tenant="acme")
    assert bus.outstanding == 0


async def test_the_tenant_of_a_subject_without_one_is_in_a_header(bus: Bus, company: Company) -> None:
    """Two tenants with the same request id on one worker do not disturb each other."""
    sender = Sender()
    await company.hear(GENERATE, sender.for_ever, slug="small", worker="w1")
    streams = [
        await bus.stream(
            GENERATE, Generate(messages=[]), slug="small", worker="w1", request_id="same", headers={TENANT: tenant}
        )
        for tenant in ("acme", "other")
    ]
    await until(lambda: len(sender.calls) == 2)
    assert [call.tenant for call in sender.calls] == ["acme", "other"]
    await streams[0].aclose()
    await asyncio.wait_for(sender.stopped.wait(), 20)
    for _ in range(20):
        assert isinstance(await anext(streams[1]), Accepted | Chunk)
    await streams[1].aclose()
    with pytest.raises(ValueError, match="tenant"):
        await bus.stream(GENERATE, Generate(messages=[]), slug="small", worker="w1", headers={TENANT: "a b"})


async def test_a_tenant_header_that_is_no_name_is_refused(bus: Bus, company: Company) -> None:
    await company.hear(GENERATE, Sender().for_ever, slug="small", worker="w1")
    msg = await bus.client.request("hasten.v1.generate.small.w1", b'{"messages":[]}', headers={TENANT: "A B"})
    assert msgspec.json.decode(msg.data)["code"] == "bad_request"


async def test_the_first_chunk_does_not_wait_for_later_ones(bus: Bus, company: Company) -> None:
    read_first = asyncio.Event()

    async def held_end(_: Tell, call: Call) -> None:
        await call.send(Chunk(seq=0, text="first"))
        await read_first.wait()
        await call.send(Done(finish_reason="stop", chunks=1))

    await company.hear(TELL, held_end)
    async for event in await ask(bus, deadline_ms=now_ms() + 20_000):
        if isinstance(event, Chunk):
            read_first.set()
    assert isinstance(event, Done)


async def test_one_request_and_one_stream_share_an_inbox(bus: Bus, company: Company) -> None:
    async def echo(say: Say, _: Call) -> Said:
        return Said(text=say.text)

    await company.hear(ECHO, echo)
    await company.hear(TELL, tell)
    stream = await ask(bus, 50, pause_s=0.002)
    replies = [await bus.request(ECHO, Say(text=str(number)), tenant="acme") for number in range(50)]
    assert [reply.text for reply in replies] == [str(number) for number in range(50)]
    assert chunks(await read(stream)) == list(range(50))
