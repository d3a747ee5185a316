"""A caller that asks for a stream and reads it, and a handler that sends what a test says."""

import asyncio
from typing import Any

from small_talk import TELL, Tell

from hasten.bus import Bus
from hasten.messages.chat import CANCEL, Chunk, Nothing, Ping
from hasten.service import Call
from hasten.stream import Stream


async def ask(bus: Bus, count: int = 3, *, pause_s: float = 0.0, tenant: str = "acme", **options: Any) -> Stream:
    return await bus.stream(TELL, Tell(count=count, pause_s=pause_s), tenant=tenant, **options)


async def read(stream: Stream) -> list[Any]:
    return [event async for event in stream if not isinstance(event, Ping)]


def chunks(events: list[Any]) -> list[int]:
    return [event.seq for event in events if isinstance(event, Chunk)]


class Sender:
    """A handler that sends what the test says, and remembers how it was stopped."""

    def __init__(self) -> None:
        self.begun, self.stopped = asyncio.Event(), asyncio.Event()
        self.calls: list[Call] = []

    async def for_ever(self, _: Tell, call: Call) -> None:
        self.calls.append(call)
        self.begun.set()
        try:
            for seq in range(1_000_000):
                await call.send(Chunk(seq=seq, text="x"))
                await asyncio.sleep(0.01)
        finally:
            self.stopped.set()

    async def silent(self, _: Tell, call: Call) -> None:
        self.calls.append(call)
        self.begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            self.stopped.set()


async def cancel(bus: Bus, request_id: str, after_s: float = 0.0, tenant: str = "acme") -> None:
    await asyncio.sleep(after_s)
    await bus.publish(CANCEL, Nothing(), tenant=tenant, request_id=request_id)
