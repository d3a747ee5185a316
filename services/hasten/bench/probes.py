"""The measurements, each a conversation with the running system as any client would have it."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec
from nats.aio.msg import Msg

from hasten.answered import Answered
from hasten.bench.chunk_delay import Tapped
from hasten.bench.figures import Together
from hasten.client import Hasten
from hasten.codec import decode
from hasten.fingerprint import fingerprint
from hasten.journal import stream_state
from hasten.messages.cache import (
    CACHE_LOOKUP,
    CACHE_PUT,
    Answer,
    CacheHit,
    CacheLookup,
    CachePut,
    Invalidate,
    NotStored,
    Stored,
)
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
AGAIN_S = 0.2
STUCK_S = 60.0
"""How long to wait for the cache to remove the next entries at the end."""
Work = Callable[[], Awaitable[object]]


async def elapsed_ms(work: Awaitable[object]) -> float:
    """How long something took, in ms."""
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000


async def together(works: Iterable[Work], parallel: int = PARALLEL) -> Together:
    """Does all of them, `parallel` at once, and measures each and the whole."""
    waiting, times, began = iter(works), list[float](), time.perf_counter()

    async def one_after_the_other() -> None:
        for work in waiting:
            times.append(await elapsed_ms(work()))

    working = [asyncio.ensure_future(one_after_the_other()) for _ in range(parallel)]
    try:
        await asyncio.gather(*working)
    finally:
        for one in working:
            one.cancel()
    return Together(parallel=parallel, seconds=time.perf_counter() - began, times=times)


@contextlib.asynccontextmanager
async def echoing(url: str, subject: str) -> AsyncIterator[None]:
    """The baseline's responder, in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hasten.bench.echo", subject),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{url}\n".encode())
        await process.stdout.readline()
        yield
    finally:
        process.stdin.close()
        await process.wait()


class Probes:
    """Measures on behalf of one tenant, which should have nothing but what the benchmark puts there."""

    def __init__(self, hasten: Hasten) -> None:
        self._hasten = hasten
        self._echo = f"hasten-bench.{random_id()}"
        self._finished: dict[str, asyncio.Future[Finished]] = {}
        self._read_seq = 0
        self.refused = 0

    @contextlib.asynccontextmanager
    async def ready(self, url: str) -> AsyncIterator[None]:
        """Starts the baseline's responder and hears of finished requests."""
        async with echoing(url, self._echo):
            await self._hasten.bus.subscribe(FINISHED.subject(tenant=self._hasten.tenant), self._on_finished)
            await self.refresh_read_seq()
            yield

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

    async def store(
        self,
        question: str,
        vector: bytes | None,
        answer: str = TEXT,
        *,
        tags: Sequence[str] = (),
        patient: bool = False,
    ) -> None:
        """Puts an answer into the cache as an orchestrator would; raises Failed.

        A `patient` one is tried again while the store is too slow for the cache's patience, and counted in `refused`.
        """
        print_ = fingerprint(parse_chat({"messages": [{"role": "user", "content": question}]}))
        body = CachePut(
            key=print_.key,
            partition=print_.partition,
            text=print_.text,
            vector=vector,
            answer=Answer(text=answer, model="bench"),
            read_seq=self._read_seq,
            tags=list(tags),
        )
        reply = await self._hasten.bus.request(CACHE_PUT, body, tenant=self._hasten.tenant)
        while patient and isinstance(reply, NotStored) and reply.reason == "unavailable":
            self.refused += 1
            await asyncio.sleep(AGAIN_S)
            reply = await self._hasten.bus.request(CACHE_PUT, body, tenant=self._hasten.tenant)
        if not isinstance(reply, Stored):
            raise Failed("unavailable", f"the cache did not store an entry of the benchmark: {reply}")

    async def look_up(self, question: str, vector: bytes) -> None:
        """Looks an answer up by meaning, as an orchestrator would; raises Failed when there is none."""
        print_ = fingerprint(parse_chat({"messages": [{"role": "user", "content": question}]}))
        body = CacheLookup(key=print_.key, partition=print_.partition, text=print_.text, vector=vector)
        reply = await self._hasten.bus.request(CACHE_LOOKUP, body, tenant=self._hasten.tenant)
        if not isinstance(reply, CacheHit):
            raise Failed("internal", f"a stored question was not found by its meaning: {reply}")

    async def invalidate(self, tag: str, least: int) -> int:
        """Removes what carries a tag, and returns how many entries had gone by the reply; raises Failed when it were
        less than `least`."""
        done = await self._hasten.invalidate(Invalidate(tags=[tag], reason="the benchmark"))
        if done.entries < least:
            raise Failed("internal", f"an invalidation removed {done.entries} entries where {least} were stored")
        return done.entries

    async def refresh_read_seq(self) -> None:
        """Stores from now on as one who has read all changes so far."""
        self._read_seq = (await stream_state(self._hasten.bus)).last_seq

    async def clear(self) -> int:
        """Removes everything of the tenant and waits until it has gone, as long as it goes on; returns what is left.

        Raises Failed.
        """
        await self._hasten.invalidate(Invalidate(everything=True, reason="the benchmark has ended"))
        left, stuck_since = sys.maxsize, time.monotonic()
        while left and time.monotonic() - stuck_since < STUCK_S:
            there = (await self._hasten.invalidate(Invalidate(everything=True, dry_run=True))).entries
            if there < left:
                left, stuck_since = there, time.monotonic()
            if left:
                await asyncio.sleep(0.5)
        return left

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


async def tapped(url: str, streams: int, model: str) -> Tapped:
    """How long chunks take from the worker to the reader with so many streams at once; raises Failed."""
    relay = f"hasten-bench.{random_id()}"
    async with echoing(url, relay):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hasten.bench.tap", str(streams), model, relay),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate(f"{url}\n".encode())
    if process.returncode:
        raise Failed("internal", "the process that sees the chunks ended with an error")
    return msgspec.json.decode(out, type=Tapped)
