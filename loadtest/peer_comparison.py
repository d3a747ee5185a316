"""Who is asked in a comparison of gateways, and everybody in turns: first tokens, hits, costs, chunks and rates."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from hasten.bus import Bus
from hasten.cancellation import cancelled
from hasten.messages.chat import CHAT, Chunk, Done
from hasten.topics import random_id
from loadtest.arrivals import poisson
from loadtest.http_lane import HttpLanes
from loadtest.open_loop import open_loop
from loadtest.peer_figure import SLOWEST_MS, Row, Search, added, ages_ms, texts
from loadtest.peer_hasten import TENANT
from loadtest.peer_upstream import MODEL, SLOWLY
from loadtest.processor_time import processor_s, resident_mb
from loadtest.sample import Sample

TOKENS, SLOW_TOKENS = 8, 40
BLOCK = 100
"""Questions of which the processor time is read at once: the kernel counts in steps of 10 ms."""
DIRECT = "direct"
Heard = list[tuple[float, str]]
Ask = Callable[[dict[str, Any]], Awaitable[Heard]]


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured: `rounds` of one question to each, `blocks` of a hundred to each for what they cost (less
    what is spent in `idle_s` of silence), `streams` slow answers at once `slow_rounds` times, and `steps` tries for a
    rate, of `seconds` each, from `rate` requests a second on."""

    rounds: int = 200
    blocks: int = 3
    idle_s: float = 2.0
    streams: int = 10
    slow_rounds: int = 4
    steps: int = 8
    seconds: float = 6.0
    rate: float = 20.0


class Refused(Exception):
    """An answer that is none: its status or failure."""


class Target(msgspec.Struct, kw_only=True):
    """One that is asked. `pids` are its processes."""

    name: str
    what: str
    ask: Ask
    pids: list[int] = []


def over_http(lanes: HttpLanes, **options: Any) -> Ask:
    """Asks a gateway."""

    async def ask(body: dict[str, Any]) -> Heard:
        told = await lanes.post("/chat/completions", {**body, **options})
        if told.status != 200 or not (heard := texts(told)):
            raise Refused(f"status {told.status}")
        return heard

    return ask


def over_bus(bus: Bus, **options: Any) -> Ask:
    """Asks hasten over NATS."""

    async def ask(body: dict[str, Any]) -> Heard:
        heard, last = Heard(), None
        async with await bus.stream(CHAT, {**body, **options}, tenant=TENANT) as stream:
            async for last in stream:
                if isinstance(last, Chunk):
                    heard.append((time.monotonic(), last.text))
        if not isinstance(last, Done) or not heard:
            raise Refused(getattr(last, "code", "no answer"))
        return heard

    return ask


def question(text: str, tokens: int = TOKENS) -> dict[str, Any]:
    """A chat body that every gateway takes."""
    return {"model": MODEL, "max_tokens": tokens, "stream": True, "messages": [{"role": "user", "content": text}]}


class Comparison:
    """Asks everybody in turns."""

    def __init__(self, targets: Sequence[Target], asked: Callable[[], Awaitable[int]], sizes: Sizes) -> None:
        self._targets, self._asked, self._sizes = targets, asked, sizes
        self.rows = {one.name: Row(name=one.name, what=one.what) for one in targets}

    async def run(self, say: Callable[[str], None]) -> None:
        """Measures everything."""
        for _ in range(3):
            await self._first_tokens(5)
        for row in self.rows.values():
            row.first.clear()
        say(f"first tokens: {self._sizes.rounds} rounds")
        await self._first_tokens(self._sizes.rounds)
        say("exact hits")
        for one in self._targets:
            await self._hits(one)
        say("processor time")
        for _ in range(self._sizes.blocks):
            for one in self._targets:
                await self._costs(one)
        say(f"chunks of {self._sizes.streams} answers at once")
        for _ in range(self._sizes.slow_rounds):
            for one in self._targets:
                await self._chunks(one)
        say("rates")
        await self._rates(say)
        for one in self._targets:
            sizes = [resident_mb(pid) for pid in one.pids]
            self.rows[one.name].resident_mb = sum(resident for resident, _ in sizes)
            self.rows[one.name].proportional_mb = sum(share for _, share in sizes)

    async def _first(self, one: Target, body: dict[str, Any]) -> float | None:
        began = time.monotonic()
        try:
            heard = await one.ask(body)
        except (Refused, OSError):
            self.rows[one.name].errors += 1
            return None
        finally:
            _heed_cancellation()
        return (heard[0][0] - began) * 1000

    async def _first_tokens(self, rounds: int) -> None:
        for _ in range(rounds):
            for one in self._targets:
                if (took := await self._first(one, question(f"What of {random_id()}?"))) is not None:
                    self.rows[one.name].first.append(took)

    async def _hits(self, one: Target) -> None:
        """Asks one question again and again, which the model server must not hear of; a store may take a moment."""
        if one.name == DIRECT:
            return
        row, body = self.rows[one.name], question(f"What is there of {random_id()}?")
        await self._first(one, body)
        await asyncio.sleep(0.3)
        before = await self._asked()
        for _ in range(self._sizes.rounds):
            if (took := await self._first(one, body)) is not None:
                row.hit.append(took)
        row.hits_asked = await self._asked() - before

    async def _costs(self, one: Target) -> None:
        """The processor time of a miss and of a hit, of all its processes, without what they take anyway."""
        row, body = self.rows[one.name], question(f"What is there of {random_id()}?")
        if not one.pids:
            return
        before, since = _processor_s(one), time.monotonic()
        await asyncio.sleep(self._sizes.idle_s)
        idle = (_processor_s(one) - before) / (time.monotonic() - since)
        misses = [question(f"What of {random_id()}?") for _ in range(BLOCK)]
        row.miss_cpu_ms.append(await self._cost_ms(one, misses, idle))
        if row.hit and row.hits_asked == 0:
            await self._first(one, body)
            await asyncio.sleep(0.3)
            row.hit_cpu_ms.append(await self._cost_ms(one, [body] * BLOCK, idle))

    async def _cost_ms(self, one: Target, bodies: Sequence[dict[str, Any]], idle: float) -> float:
        """The mean of some questions, one after the other."""
        before, since = _processor_s(one), time.monotonic()
        for body in bodies:
            await self._first(one, body)
        spent = _processor_s(one) - before - idle * (time.monotonic() - since)
        return max(0.0, spent) / len(bodies) * 1000

    async def _chunks(self, one: Target) -> None:
        """Slow answers at once: how old each token is when it is read."""
        row = self.rows[one.name]
        bodies = [question(f"{SLOWLY} say what of {random_id()}.", SLOW_TOKENS) for _ in range(self._sizes.streams)]
        for heard in await asyncio.gather(*(one.ask(body) for body in bodies), return_exceptions=True):
            if isinstance(heard, BaseException):
                row.errors += 1
            else:
                row.ages += ages_ms(heard)

    async def _rates(self, say: Callable[[str], None]) -> None:
        direct = self.rows[DIRECT].first
        searches = {one.name: Search(self._sizes.rate, self._sizes.steps) for one in self._targets}
        for step in range(self._sizes.steps):
            for one in self._targets:
                search = searches[one.name]
                samples = await self._at_rate(one, search.rate, step)
                _heed_cancellation()
                times = [sample.ttft_ms for sample in samples if sample.ok and sample.ttft_ms is not None]
                late = max((sample.late_ms for sample in samples), default=0.0)
                whole = bool(times) and len(times) == len(samples)
                kept = whole and added(times, direct).p99 <= SLOWEST_MS
                said = "kept" if kept else "not kept"
                say(f"{one.name}: {search.rate:.0f}/s {said} (generator at most {late:.0f} ms late)")
                search.tell(kept=kept)
                await asyncio.sleep(0.5)
        for name, search in searches.items():
            self.rows[name].rate = search.as_json()

    async def _at_rate(self, one: Target, rate: float, seed: int) -> list[Sample]:
        async def ask(index: int, due: float) -> Sample:
            heard = await one.ask(question(f"What of {random_id()}?"))
            offset = time.monotonic() - time.perf_counter()
            took = (heard[0][0] - offset - due) * 1000
            return Sample(ttft_ms=took, total_ms=took)

        return await open_loop(poisson(rate, self._sizes.seconds, seed), ask)


def _heed_cancellation() -> None:
    """Ends here, should a library have swallowed the cancellation (`hasten.bus.cancelled`)."""
    if cancelled():
        raise asyncio.CancelledError


def _processor_s(one: Target) -> float:
    return sum(processor_s({str(pid): pid for pid in one.pids}).values())
