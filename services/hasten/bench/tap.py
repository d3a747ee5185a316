"""Asks many questions at once and sees every chunk twice, from the worker and as the reader gets it: what lies between
is what hasten adds. In a process of its own that does nothing else, beside the same of bare NATS."""

import asyncio
import functools
import random
import sys
import time

import msgspec
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from hasten.bench.chunk_delay import Streams, Tapped, delays_ms
from hasten.deadline import REQUEST_ID
from hasten.messages.chat import CHAT
from hasten.run import run_loop
from hasten.topics import random_id

SILENCE_S = 30.0


class _Event(msgspec.Struct):
    """What is needed of an event of a stream."""

    type: str = ""
    text: str = ""


class Tap:
    """Listens to all inboxes of a server."""

    def __init__(self, client: Client, tenant: str) -> None:
        self._client, self._tenant = client, tenant
        self._decode = msgspec.json.Decoder(_Event).decode
        self._ended = asyncio.Event()
        self._open: set[str] = set()
        self.streams = Streams()

    async def listen(self) -> None:
        """Begins to hear."""
        await self._client.subscribe("_INBOX.>", cb=self._hear)

    async def ask(self, count: int, model: str) -> None:
        """Asks, half a second long one after the other, and returns when all streams have ended."""
        self.streams = Streams()
        self._ended.clear()
        for number in range(count):
            words = " ".join(f"s{number}n{word}" for word in range(8))
            body = {"messages": [{"role": "user", "content": words}], "model": model, "cache": {"mode": "off"}}
            reply = f"_INBOX.{self._tenant}.{random_id()}"
            self._open.add(reply)
            await self._client.publish(
                CHAT.subject(tenant=self._tenant),
                msgspec.json.encode(body),
                reply=reply,
                headers={REQUEST_ID: random_id()},
            )
            await asyncio.sleep(0.5 / count)
        async with asyncio.timeout(SILENCE_S):
            await self._ended.wait()

    async def _hear(self, msg: Msg) -> None:
        now = time.perf_counter()
        try:
            event = self._decode(msg.data)
        except msgspec.DecodeError:
            return
        if event.type == "chunk":
            self.streams.heard(msg.subject, event.text, now, shown=msg.subject in self._open)
        elif event.type in ("done", "failure"):
            self._open.discard(msg.subject)
            if not self._open:
                self._ended.set()

    async def relay(self, subject: str, seconds: list[float]) -> list[float]:
        """Publishes at these moments to a relay that sends everything on, and returns how long that took, in ms."""
        prefix = subject.rpartition(".")[0]
        there, sent, took, done = f"{prefix}.{random_id()}", dict[bytes, float](), list[float](), asyncio.Event()

        async def hear(msg: Msg) -> None:
            now = time.perf_counter()
            if msg.subject == subject:
                sent[msg.data] = now
            elif msg.subject == there:
                took.append((now - sent[msg.data]) * 1000)
                if len(took) == len(seconds):
                    done.set()

        await self._client.subscribe(f"{prefix}.>", cb=hear)
        began = time.perf_counter()
        for at, moment in enumerate(sorted(seconds)):
            await asyncio.sleep(max(0.0, began + moment - time.perf_counter()))
            await self._client.publish(subject, b"%d " % at + b"x" * 80, reply=there)
        async with asyncio.timeout(SILENCE_S):
            await done.wait()
        return took


async def tap(url: str, count: int, model: str, relay: str) -> int:
    """`python -m hasten.bench.tap COUNT MODEL SUBJECT`: prints a Tapped as JSON; SUBJECT is that of an echo.

    The URL is the first line of stdin.
    """
    client = await nats.connect(url)
    listening = Tap(client, f"bench-{random_id()[:8]}")
    await listening.listen()
    await listening.ask(1, model)
    await listening.ask(count, model)
    chunks = delays_ms(listening.streams)
    lasted = listening.streams.lasted_s
    moments = [random.uniform(0, lasted) for _ in chunks]
    bare = await listening.relay(relay, moments)
    sys.stdout.buffer.write(msgspec.json.encode(Tapped(streams=count, chunks=chunks, bare=bare)))
    await client.close()
    return 0


if __name__ == "__main__":
    work = functools.partial(tap, sys.stdin.readline().strip(), int(sys.argv[1]), *sys.argv[2:4])
    sys.exit(run_loop(work()))
