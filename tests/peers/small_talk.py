"""Conversations made up for the bus's own tests: a request, a stream and an event that belong to no service."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hasten.bus import Bus
from hasten.messages.chat import ChatReply, Chunk, Done
from hasten.messages.failure import Failure
from hasten.service import Admit, Call, Service
from hasten.topics import Body, Reply, Topic


class Say(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for an echo of `text`, after `wait_s`."""

    text: str = ""
    wait_s: float = 0.0
    extra: Any = None


class Said(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """The echo, and which replica said it."""

    text: str = ""
    by: str = ""


class Tell(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for `count` chunks, `pause_s` apart."""

    count: int = 3
    pause_s: float = 0.0


class Tick(Body, frozen=True, kw_only=True, omit_defaults=True):
    """An event."""

    number: int = 0


ECHO = Topic(name="echo", template="hasten.v1.echo.{tenant}", request=Say, reply=Said | Failure, queue="echo")
TELL = Topic(
    name="tell", template="hasten.v1.tell.{tenant}", request=Tell, reply=ChatReply, kind="stream", queue="teller"
)
TICK = Topic(name="tick", template="hasten.v1.tick.{tenant}", request=Tick, kind="event")


async def echo(say: Say, call: Call) -> Said:
    """Answers with the text, when the time has come."""
    if say.wait_s:
        await asyncio.sleep(say.wait_s)
    return Said(text=say.text)


async def tell(body: Tell, call: Call) -> None:
    """Sends the chunks `0`, `1`, … and Done."""
    for seq in range(body.count):
        await call.send(Chunk(seq=seq, text=f"{seq} "))
        await asyncio.sleep(body.pause_s)
    await call.send(Done(finish_reason="stop", chunks=body.count))


Handler = Callable[[Any, Call], Awaitable[Any]]


class Company:
    """Services that a test starts on its buses, and that end with it."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._services: list[Service] = []

    async def hear(
        self,
        topic: Topic,
        handler: Handler,
        *,
        bus: Bus | None = None,
        limit: int = 64,
        waiting: int = 0,
        share: float = 1.0,
        report: Callable[[], dict[str, Any]] | None = None,
        admit: Admit | None = None,
        last: bool = False,
        **tokens: str,
    ) -> Service:
        """Starts a service that answers one topic."""
        service = Service(bus or self._bus, f"test-{topic.name}", "Made up for a test.", report=report)
        service.answer(topic, handler, limit=limit, waiting=waiting, share=share, admit=admit, last=last, **tokens)
        await service.start()
        self._services.append(service)
        return service

    async def listen(self, topic: Topic, handler: Callable[[Any, dict[str, str]], None], **tokens: str) -> Service:
        """Starts a service that listens to an event."""
        service = Service(self._bus, f"test-{topic.name}", "Made up for a test.")
        service.listen(topic, handler, **tokens)
        await service.start()
        self._services.append(service)
        return service

    async def leave(self) -> None:
        """Closes every service."""
        for service in self._services:
            await service.close()


async def ask(bus: Bus, text: str = "hello", *, tenant: str = "acme", **options: Any) -> Any:
    """Asks for an echo with hasten's own client."""
    wait_s = options.pop("wait_s", 0.0)
    return await bus.request(ECHO, Say(text=text, wait_s=wait_s), tenant=tenant, **options)


async def raw(bus: Bus, body: bytes, *, headers: dict[str, str] | None = None, subject: str = "") -> dict[str, Any]:
    """What a client with nothing but NATS gets."""
    subject = subject or "hasten.v1.echo.acme"
    msg = await bus.client.request(subject, body, timeout=20, headers=headers)
    found: dict[str, Any] = msgspec.json.decode(msg.data)
    return found
