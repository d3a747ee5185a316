"""The measurements, each a conversation with the running system as any client would have it."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import numpy as np
from nats.aio.msg import Msg

from hasten.answered import Answered
from hasten.client import Hasten
from hasten.codec import decode
from hasten.fingerprint import fingerprint
from hasten.journal import stream_state
from hasten.messages.cache import CACHE_PUT, Answer, CachePut, Stored
from hasten.messages.chat import FINISHED, Finished, parse_chat
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.failure import Failed
from hasten.messages.route import ROUTE, Route, Routed
from hasten.topics import random_id

TEXT = (
    "You can change the delivery address until the parcel leaves our warehouse. Open the order, choose Delivery and "
    "enter the new address; we confirm it by mail within a few minutes. Afterwards the carrier can redirect it for a "
    "fee of 4 euros, which takes one more day. "
) * 4
"""A cached answer of about 200 words."""
PARALLEL = 32


async def elapsed_ms(work: Awaitable[object]) -> float:
    """How long something took, in ms."""
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000


class Probes:
    """Measures on behalf of one tenant, which should have nothing but what the benchmark puts there."""

    def __init__(self, hasten: Hasten) -> None:
        self._hasten = hasten
        self._echo = f"hasten-bench.{random_id()}"
        self._finished: dict[str, asyncio.Future[Finished]] = {}
        self._read_seq = 0

    @contextlib.asynccontextmanager
    async def ready(self, url: str) -> AsyncIterator[None]:
        """Starts the baseline's responder and hears of finished requests."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hasten.bench.echo",
            self._echo,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{url}\n".encode())
            await process.stdout.readline()
            await self._hasten.bus.subscribe(FINISHED.subject(tenant=self._hasten.tenant), self._on_finished)
            self._read_seq = (await stream_state(self._hasten.bus)).last_seq
            yield
        finally:
            process.stdin.close()
            await process.wait()

    async def _on_finished(self, msg: Msg) -> None:
        event: Finished = decode(Finished, msg.data)
        self._of(event.request_id).set_result(event)

    def _of(self, request_id: str) -> asyncio.Future[Finished]:
        return self._finished.setdefault(request_id, asyncio.get_running_loop().create_future())

    async def bare(self) -> float:
        """One request-reply of nats-py with as many bytes as a small question has."""
        return await elapsed_ms(self._hasten.bus.client.request(self._echo, b"x" * 160, timeout=5))

    async def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """The vectors of some texts; raises Failed."""
        reply = await self._hasten.bus.request(EMBED, Embed(texts=list(texts)), tenant=self._hasten.tenant)
        if not isinstance(reply, Embedded):
            raise Failed.of(reply)
        return reply.vectors

    async def store(self, question: str, vector: bytes | None, answer: str = TEXT) -> None:
        """Puts an answer into the cache as an orchestrator would; raises Failed."""
        print_ = fingerprint(parse_chat({"messages": [{"role": "user", "content": question}]}))
        body = CachePut(
            key=print_.key,
            partition=print_.partition,
            text=print_.text,
            vector=vector,
            answer=Answer(text=answer, model="bench"),
            read_seq=self._read_seq,
        )
        reply = await self._hasten.bus.request(CACHE_PUT, body, tenant=self._hasten.tenant)
        if not isinstance(reply, Stored):
            raise Failed("unavailable", f"the cache did not store an entry of the benchmark: {reply}")

    async def fill(self, entries: int, dim: int, say: Callable[[str], None]) -> None:
        """Puts that many answers with distinct texts and random unit vectors beside those that will be asked for."""
        random = np.random.default_rng(7)
        gate = asyncio.Semaphore(PARALLEL)

        async def one(number: int, vector: bytes) -> None:
            async with gate:
                await self.store(f"entry {number}: what is said about item {number * 7919} of the list?", vector, "it")

        for start in range(0, entries, 1000):
            rows = random.standard_normal((min(1000, entries - start), dim), dtype=np.float32)
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            await asyncio.gather(*(one(start + at, row.tobytes()) for at, row in enumerate(rows)))
            say(f"{start + len(rows):,} of {entries:,} entries stored")

    async def ask(self, question: str, **options: Any) -> Answered:
        """Asks as a client does; times are this process's. Raises Failed."""
        return await self._hasten.ask(question, **options)

    async def miss(self, question: str) -> tuple[float, float] | None:
        """A generation of few tokens: (the worker's own time to its first token, what hasten added to it), in ms."""
        answered = await self.ask(question, max_tokens=4)
        try:
            finished = await asyncio.wait_for(self._of(answered.request_id), 5)
        except TimeoutError:
            return None
        if answered.ttft_ms is None or not finished.worker_ttft_ms:
            return None
        return finished.worker_ttft_ms, answered.ttft_ms - finished.worker_ttft_ms

    async def route(self, text: str, vector: bytes) -> float:
        """One decision of the router, with the vector given; raises Failed."""
        began = time.perf_counter()
        body = Route(text=text, vector=vector)
        reply = await self._hasten.bus.request(ROUTE, body, tenant=self._hasten.tenant)
        took = (time.perf_counter() - began) * 1000
        if not isinstance(reply, Routed):
            raise Failed.of(reply)
        return took
