"""A lost answer is asked for again with ever more patience: whoever is overloaded gets through in the end."""

import asyncio

import pytest
from nats.aio.msg import Msg

from hasten import chat_stream
from hasten.bus import Bus
from hasten.chat_stream import ChatStream
from hasten.deadline import now_ms
from hasten.messages.chat import CHAT, Chunk, Done
from hasten.messages.resume import RESUME

LATE_S = 0.25


async def test_an_orchestrator_that_answers_late_is_asked_seldom_and_waited_for(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is later than the first waits are long, and would never be heard by who waits no longer each time."""
    monkeypatch.setattr(chat_stream, "FIRST_S", LATE_S / 8)
    monkeypatch.setattr(chat_stream, "LONGEST_S", 60.0)
    asked, answering = 0, set[asyncio.Task[None]]()

    async def begin(msg: Msg) -> None:
        await bus.send(msg.reply, Chunk(seq=0, text="one "))

    async def go_on(reply: str) -> None:
        await asyncio.sleep(LATE_S)
        await bus.send(reply, Chunk(seq=1, text="two"))
        await bus.send(reply, Done(finish_reason="stop", model="m", chunks=2))

    async def resume(msg: Msg) -> None:
        nonlocal asked
        asked += 1
        answering.add(asyncio.ensure_future(go_on(msg.reply)))

    await bus.subscribe(CHAT.pattern, begin)
    await bus.subscribe(RESUME.pattern, resume)
    stream = ChatStream(bus, "acme", {}, deadline_ms=now_ms() + 60_000, silence_s=0.1, resume_s=60)
    async with stream:
        events = [event async for event in stream]
    assert [type(event) for event in events] == [Chunk, Chunk, Done]
    assert "".join(event.text for event in events if isinstance(event, Chunk)) == "one two"
    assert asked < 8
    await asyncio.gather(*answering)
