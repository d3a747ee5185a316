"""Streams that break: a sender that is silent, absent or unreadable is never a good answer."""

import asyncio
from typing import Any

import msgspec
import pytest
from nats.aio.msg import Msg
from small_talk import TELL, Company
from stream_rig import Sender, ask, chunks, read

from hasten.bus import Bus
from hasten.messages.chat import CANCEL, STOP, Chunk, Done
from hasten.messages.failure import Failure


async def test_a_sender_that_falls_silent_is_incomplete(bus: Bus) -> None:
    async def accept(msg: Msg) -> None:
        await msg.respond(b'{"type":"chunk","seq":0}')

    await bus.subscribe("hasten.v1.tell.*", accept)
    events = await read(await ask(bus, first_s=20, idle_s=0.2))
    assert (events[-1].code, events[-1].tokens_sent) == ("incomplete", 1)
    assert bus.outstanding == 0


@pytest.mark.parametrize(
    ("sent", "right"),
    [
        ([0, 1, 3], 2),
        ([1], 0),
        ([0, 0], 1),
        ([0, 1, 2, "done4"], 3),
        ([0, "done0"], 1),
        (["done1"], 0),
    ],
)
async def test_a_gap_is_never_a_good_answer(bus: Bus, sent: list[Any], right: int) -> None:
    async def send(msg: Msg) -> None:
        for one in sent:
            event: Any = Chunk(seq=one) if isinstance(one, int) else Done(finish_reason="stop", chunks=int(one[4:]))
            await msg.respond(msgspec.json.encode(event))

    await bus.subscribe("hasten.v1.tell.*", send)
    events = await read(await ask(bus))
    assert (events[-1].code, events[-1].tokens_sent) == ("incomplete", right)
    assert chunks(events) == list(range(right))


async def test_a_failure_counts_what_was_read_and_not_what_was_sent(bus: Bus) -> None:
    async def send(msg: Msg) -> None:
        for event in (Chunk(seq=0), Failure(code="upstream", tokens_sent=7)):
            await msg.respond(msgspec.json.encode(event))

    await bus.subscribe("hasten.v1.tell.*", send)
    assert (await read(await ask(bus)))[-1] == Failure(code="upstream", tokens_sent=1)


async def cancels_heard(bus: Bus) -> list[str]:
    heard: list[str] = []

    async def listen(msg: Msg) -> None:
        heard.append(msg.subject)

    await bus.subscribe(CANCEL.pattern, listen)
    await bus.subscribe(STOP.pattern, listen)
    await bus.flush()
    return heard


async def test_a_sender_whose_event_cannot_be_read_is_told_to_stop(bus: Bus, company: Company) -> None:
    sender = Sender()
    await company.hear(TELL, sender.for_ever)

    async def garble(msg: Msg) -> None:
        await bus.client.publish(msg.reply, b"garbled")

    await bus.subscribe("hasten.v1.tell.*", garble)
    events = await read(await ask(bus))
    assert events[-1].code == "internal"
    await asyncio.wait_for(sender.stopped.wait(), 20)
    assert bus.outstanding == 0


async def test_nobody_is_told_to_stop_when_nobody_was_there(bus: Bus) -> None:
    heard = await cancels_heard(bus)
    assert [event.code for event in await read(await ask(bus))] == ["unavailable"]
    await bus.flush()
    assert heard == []


async def test_nobody_there_is_said_at_once(bus: Bus) -> None:
    events = await read(await ask(bus))
    assert [event.code for event in events] == ["unavailable"]
    assert bus.outstanding == 0
