"""Sends a piece of the trace through real processes on a real NATS server, and the same piece through a replay.

Times and lengths are scaled down alike, so that it takes a minute and the simulator's words cost little: a block of the
trace becomes a turn of 32 words.
"""

import asyncio
import time
from collections.abc import Sequence

import msgspec
import numpy as np

from hasten.bus import Bus
from hasten.messages.chat import CHAT, Chunk, Done
from hasten.router.settings import Settings
from loadtest.affinity.policy import product
from loadtest.affinity.replay import Outcome, replay
from loadtest.affinity.report import ENGINE, faster_for
from loadtest.affinity.trace import BLOCK, Asked
from loadtest.pipeline import pipeline

TENANT = "loadtest"
REQUESTS = 400
LOAD = 0.8
SHORTER, FASTER = 16, 2
"""A prompt has so much fewer tokens, and everything goes so much faster."""
ROUTERS = 2
ROW = "context_window = 1000000\ntoken_budget = 900000\nmax_tokens = 4096"


class RealRow(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the piece, really and in the replay. Times are those of the trace, not of the run, in ms."""

    case: str
    requests: int
    failed: int
    hit_rate: float
    hit_rate_replayed: float
    p50_ms: float
    p50_ms_replayed: float
    p95_ms: float
    p95_ms_replayed: float
    shares: list[float]


def engine() -> str:
    """The replay's engine on this scale, as a table of TOML."""
    prefill, decode = (per_s * FASTER / SHORTER for per_s in (ENGINE.sim_prefill_per_s, ENGINE.sim_decode_per_s))
    sizes = f"slots = {ENGINE.slots}, queue = 1000, cache_tokens = {ENGINE.cache_tokens // SHORTER}"
    rates = f"sim_prefill_per_s = {prefill}, sim_decode_per_s = {decode}"
    return f'kind = "sim", {sizes}, {rates}, sim_answer = "{"word " * 400}"'


async def ask(bus: Bus, request: Asked) -> tuple[float, int, int] | None:
    """The time to the first token in seconds, the tokens of the prompt and those cached; None for a failure."""
    body = {
        "messages": turns(request),
        "max_tokens": max(1, request.output_length // SHORTER),
        "cache": {"mode": "off"},
        "deadline_ms": 300_000,
    }
    asked, first_s = time.perf_counter(), 0.0
    async with await bus.stream(CHAT, body, tenant=TENANT) as stream:
        async for event in stream:
            if isinstance(event, Chunk):
                first_s = first_s or time.perf_counter() - asked
            elif isinstance(event, Done):
                return first_s, event.usage.prompt_tokens, event.usage.cached_tokens
    return None


def turns(request: Asked) -> list[dict[str, str]]:
    """The prompt as turns, each a block of the trace; the simulator counts a turn's role as a token."""
    words = BLOCK // SHORTER - 1
    made = [
        {"role": ("user", "assistant")[at % 2], "content": f"b{block}" + " go" * (words - 1)}
        for at, block in enumerate(request.hash_ids)
    ]
    return made if made[-1]["role"] == "user" else [*made, {"role": "user", "content": "go"}]


async def _send(bus: Bus, trace: Sequence[Asked], faster: float) -> list[tuple[float, int, int] | None]:
    started = time.perf_counter()
    tasks = []
    for request in trace:
        due = started + (request.at_s - trace[0].at_s) / faster
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(ask(bus, request)))
    return await asyncio.gather(*tasks)


def _same(trace: Sequence[Asked]) -> list[Asked]:
    """The requests as they are really sent: whole blocks, and answers of at least one word."""
    return [
        msgspec.structs.replace(
            one,
            input_length=BLOCK * len(one.hash_ids),
            output_length=max(1, one.output_length // SHORTER) * SHORTER,
        )
        for one in trace
    ]


async def real(trace: Sequence[Asked], workers: int) -> list[RealRow]:
    """Two runs, with affinity and without, each beside its replay."""
    trace, configs = _same(trace), [ENGINE] * workers
    faster = faster_for(LOAD, trace, configs)
    rows = []
    for affinity in (True, False):
        expected = replay(trace, product(Settings(), cached=affinity), configs, faster=faster, routers=ROUTERS)
        environment = {"HASTEN_ROUTER_AFFINITY": str(affinity).lower()}
        async with pipeline(engine(), row=ROW, **environment) as system:
            await asyncio.gather(*(system.add(f"router{at}", "router", **environment) for at in range(1, ROUTERS)))
            await asyncio.gather(*(system.add_worker(f"w{at}") for at in range(workers)))
            answers = await _send(system.bus, trace, faster * FASTER)
            shares = sorted((await system.generations()).values())
        rows.append(_row("hasten" if affinity else "least loaded", answers, shares, expected))
    return rows


def _row(
    case: str, answers: Sequence[tuple[float, int, int] | None], shares: Sequence[int], expected: Outcome
) -> RealRow:
    good = [answer for answer in answers if answer is not None]
    times = [first_s * FASTER * 1000 for first_s, _, _ in good]
    replayed = [first_s * 1000 for first_s in expected.ttft_s]
    return RealRow(
        case=case,
        requests=len(answers),
        failed=len(answers) - len(good),
        hit_rate=round(sum(cached for _, _, cached in good) / max(1, sum(tokens for _, tokens, _ in good)), 4),
        hit_rate_replayed=round(expected.hit_rate, 4),
        p50_ms=round(float(np.percentile(times, 50))),
        p50_ms_replayed=round(float(np.percentile(replayed, 50))),
        p95_ms=round(float(np.percentile(times, 95))),
        p95_ms_replayed=round(float(np.percentile(replayed, 95))),
        shares=[round(share / max(1, sum(shares)), 3) for share in shares],
    )
