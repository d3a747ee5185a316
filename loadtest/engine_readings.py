"""How one engine takes prompts that begin alike, come alone, come at once or are cancelled: figures by name."""

import asyncio
import random
from contextlib import suppress

from hasten.messages.generate import Generate
from hasten.worker.engines import EngineError
from loadtest.engine_rig import Rig, Timed, median, prose, request

CLIENTS, ROUNDS, CANCELS = 8, 2, 6


async def prefix(rig: Rig) -> dict[str, float]:
    """A thousand tokens of system text asked about again, by the same tenant and by another; times in ms."""
    asked = [request(f"Question {at}?", 2, prose(980, seed=1)) for at in range(5)]
    first, *again = [await rig.ask(one) for one in asked]
    other = await rig.ask(asked[0], "rival/1")
    return {
        "prompt_tokens": first.prompt_tokens,
        "first_ms": first.ttft_ms,
        "again_ms": median([one.ttft_ms for one in again]),
        "cached_tokens": again[-1].cached_tokens,
        "other_tenant_ms": other.ttft_ms,
        "other_tenant_cached": other.cached_tokens,
    }


async def alone(rig: Rig) -> dict[str, float]:
    """Medians of four requests, one after the other: 139 tokens of prompt and 48 of answer."""
    seen = [await rig.ask(request(prose(105, seed), 48)) for seed in range(4)]
    return {"ttft_ms": median([one.ttft_ms for one in seen]), "per_s": median([one.per_s for one in seen])}


async def crowd(rig: Rig) -> dict[str, float]:
    """Eight strangers at once, twice; `same` is the share of answers that are what one alone would have got."""
    wanted = [request(f"{prose(20, seed)}. Tell me more about the {prose(2, seed)}.", 32) for seed in range(CLIENTS)]
    expected = [(await rig.ask(one, f"t{at}/alone")).text for at, one in enumerate(wanted)]
    line = asyncio.Semaphore(rig.engine.slots)

    async def client(at: int, again: int) -> Timed:
        began = rig.clock()
        async with line:
            return await rig.ask(wanted[at], f"u{at}-{again}/1", began)

    began = rig.clock()
    seen = []
    for again in range(ROUNDS):
        seen += await asyncio.gather(*(client(at, again) for at in range(CLIENTS)))
    took = rig.clock() - began
    return {
        "ttft_p50_ms": median([one.ttft_ms for one in seen]),
        "ttft_max_ms": max(one.ttft_ms for one in seen),
        "per_s": sum(one.tokens for one in seen) / took,
        "same": sum(one.text == expected[at % CLIENTS] for at, one in enumerate(seen)) / len(seen),
    }


async def cancels(rig: Rig) -> dict[str, float]:
    """Prompt tokens per second, and how many ms after an abort the slot begins to work for the next request."""
    long = [await rig.ask(request(prose(500, seed))) for seed in (1, 2)]
    prefill_ms, chance = min(one.ttft_ms for one in long), random.Random(3)
    short, quiet = request("Name a colour."), []
    for seed in range(3):
        await rig.ask(request(prose(30, seed)))
        quiet.append((await rig.ask(short)).ttft_ms)
    in_prefill = [
        await _cancelled(rig, request(prose(500, 10 + at)), prefill_ms * chance.uniform(0.2, 0.7), short)
        for at in range(CANCELS)
    ]
    answer = request("Count to a hundred.", 400)
    in_decode = [await _cancelled(rig, answer, 400 + 300 * chance.random(), short) for _ in range(3)]
    return {
        "prefill_per_s": max(one.prompt_tokens / one.ttft_ms * 1000 for one in long),
        "cancel_prefill_ms": median(in_prefill) - min(quiet),
        "cancel_prefill_max_ms": max(in_prefill) - min(quiet),
        "cancel_decode_ms": median(in_decode) - min(quiet),
    }


async def _cancelled(rig: Rig, wanted: Generate, after_ms: float, following: Generate) -> float:
    """How long after the abort of a request, that ran for a while, the next one has its first token."""

    async def asked() -> None:
        with suppress(EngineError):
            await rig.ask(wanted, "acme/cancelled")

    running = asyncio.create_task(asked())
    await asyncio.sleep(after_ms / 1000)
    began = rig.clock()
    await rig.engine.abort("acme/cancelled")
    seen = await rig.ask(following, "acme/next", began)
    await running
    return seen.ttft_ms
