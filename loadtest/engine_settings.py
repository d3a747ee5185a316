"""What each setting of an engine does to its latency, on this machine: the figures of docs/engines.md."""

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil

from hasten.messages.generate import Generate
from hasten.models import LARGE, SMALL
from hasten.run import run_loop
from hasten.weights import folder, prepare, requantized
from hasten.worker.engines import EngineError
from loadtest.engine_rig import Clock, Rig, Timed, median, model_of, prose, request, running

PASSAGE = (
    "The yearly plan for the Harbour edition costs 1,299 euros for 25 seats, and VAT of 19 percent is added on the "
    "invoice. Customers in Norway pay in kroner at the rate of the day, and every seat beyond the twenty-fifth costs "
    "48 euros a year. The plan may be cancelled at the end of each quarter with a notice of 30 days, by letter or in "
    "the console."
)
COPY, FREE = f"Repeat this text word for word:\n{PASSAGE}", "Tell a story about a fox and a lighthouse."
CLIENTS, ROUNDS, CANCELS = 8, 2, 6
Settings = dict[str, Any]
Variants = list[tuple[str, Settings]]

PREFIX: dict[str, Variants] = {
    "llama": [("on", {}), ("off", {"llama_prefix_cache": False})],
    "vllm": [("on", {}), ("off", {"vllm_prefix_cache": False})],
}
SPECULATIVE: dict[str, Variants] = {
    "llama": [("off", {}), ("ngram", {"llama_speculative": "ngram"})],
    "vllm": [("off", {}), ("ngram", {"vllm_ngram_tokens": 8})],
}
DRAFT: Variants = [
    ("f16, off", {"path": LARGE.engine.path}),
    (
        "f16, draft",
        {
            "path": LARGE.engine.path,
            "llama_speculative": "draft",
            "llama_draft": f"{Path(LARGE.engine.path).stem}.q4_0.gguf",
            "llama_draft_tokens": 6,
        },
    ),
]
"""The embedded weights guessed ahead by themselves in less precision: the only pair of one vocabulary that is here."""
QUANTIZATION: dict[str, Variants] = {
    "llama": [(kind, {"path": LARGE.engine.path, "llama_quantization": kind}) for kind in ("", "q8_0", "q4_0")],
}
BATCH: dict[str, Variants] = {
    "llama": [(str(batch), {"llama_batch": batch}) for batch in (16, 32, 64, 128, 512)],
    "vllm": [(str(batch), {"vllm_options": {"max_num_batched_tokens": batch}}) for batch in (128, 512, 2048)],
}
CONTEXT: dict[str, Variants] = {
    "llama": [
        ("1024", {"window": 1024, "slots": 4}),
        ("4096", {"window": 4096, "slots": 4}),
        ("8192", {"window": 8192, "slots": 4}),
        ("8192, q8_0", {"window": 8192, "slots": 4, "llama_cache_type": "q8_0"}),
    ],
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of one part, and its figures by name."""

    part: str
    setting: str
    figures: dict[str, float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Times in ms, rates in tokens per second. `load` is the machine's mean of the last minute, before and after.

    With the clock `cpu` it is the processor's time, of this process and of those that it has started: what an engine
    with one thread takes on a core of its own.
    """

    engine: str
    clock: str
    load: list[float]
    rows: list[Row]


class Bench:
    """The parts, each on engines of its own. `base` is what every row of the model table has in common."""

    def __init__(self, kind: str, base: Settings, data: Path, clock: Clock) -> None:
        self._kind, self._base, self._data, self._clock = kind, base, data, clock

    def _running(self, settings: Settings) -> AbstractAsyncContextManager[Rig]:
        return running(model_of(self._kind, **{**self._base, **settings}), self._data, self._clock)

    async def prefix(self) -> list[Row]:
        """A thousand tokens of system text asked about again, by the same tenant and by another."""
        rows = []
        for name, settings in PREFIX.get(self._kind, []):
            async with self._running(settings) as rig:
                asked = [request(f"Question {at}?", 2, prose(980, seed=1)) for at in range(5)]
                first, *again = [await rig.ask(one) for one in asked]
                other = await rig.ask(asked[0], "rival/1")
            rows.append(_row("prefix", name, _seen(first, again, other)))
        return rows

    async def speculative(self) -> list[Row]:
        """A hundred tokens that copy the prompt, and a hundred that do not."""
        rows = []
        embedded = self._kind == "llama" and self._base["path"] == SMALL.engine.path
        if embedded:
            requantized(folder(self._data) / LARGE.engine.path, "q4_0")
        for name, settings in SPECULATIVE.get(self._kind, []) + (DRAFT if embedded else []):
            async with self._running(settings) as rig:
                copied, free = await rig.ask(request(COPY, 100)), await rig.ask(request(FREE, 100))
            rows.append(_row("speculative", name, {"copy_per_s": copied.per_s, "free_per_s": free.per_s}))
        return rows

    async def slots(self) -> list[Row]:
        """Eight strangers at once, twice; `same` is the share of answers that are what one alone would have got."""
        rows = []
        for slots in (1, 4, 8):
            async with self._running({"slots": slots}) as rig:
                rows.append(_row("slots", str(slots), await _crowd(rig)))
        return rows

    async def quantization(self) -> list[Row]:
        """A prompt of 139 tokens and an answer of 48, in each precision of the same weights."""
        rows = []
        for name, settings in QUANTIZATION.get(self._kind, []):
            async with self._running(settings) as rig:
                rows.append(_row("quantization", name or "f16", await _alone(rig)))
        return rows

    async def batch(self) -> list[Row]:
        """Prompt tokens per second, and how long after an abort the slot begins to work for the next request."""
        rows = []
        for name, settings in BATCH.get(self._kind, []):
            async with self._running(settings) as rig:
                rows.append(_row("batch", name, await _cancels(rig)))
        return rows

    async def context(self) -> list[Row]:
        """Memory and speed with four slots of each window."""
        rows = []
        for name, settings in CONTEXT.get(self._kind, []):
            before = psutil.Process().memory_info().rss
            async with self._running(settings) as rig:
                memory = (psutil.Process().memory_info().rss - before) / 2**20
                rows.append(_row("context", name, {"memory_mib": memory, **await _alone(rig)}))
        return rows


def _row(part: str, setting: str, figures: dict[str, float]) -> Row:
    row = Row(part=part, setting=setting, figures={name: round(value, 2) for name, value in figures.items()})
    print(_line(row), file=sys.stderr)
    return row


def _line(row: Row) -> str:
    figures = ", ".join(f"{name} {value:g}" for name, value in row.figures.items())
    return f"{row.part:13} {row.setting:11} {figures}"


def _seen(first: Timed, again: list[Timed], other: Timed) -> dict[str, float]:
    return {
        "prompt_tokens": first.prompt_tokens,
        "first_ms": first.ttft_ms,
        "again_ms": median([one.ttft_ms for one in again]),
        "cached_tokens": again[-1].cached_tokens,
        "other_tenant_ms": other.ttft_ms,
        "other_tenant_cached": other.cached_tokens,
    }


async def _alone(rig: Rig) -> dict[str, float]:
    seen = [await rig.ask(request(prose(105, seed), 48)) for seed in range(4)]
    return {"ttft_ms": median([one.ttft_ms for one in seen]), "per_s": median([one.per_s for one in seen])}


async def _crowd(rig: Rig) -> dict[str, float]:
    wanted = [request(f"{prose(20, seed)}. Tell me more about the {prose(2, seed)}.", 32) for seed in range(CLIENTS)]
    alone = [(await rig.ask(one, f"t{at}/alone")).text for at, one in enumerate(wanted)]
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
        "same": sum(one.text == alone[at % CLIENTS] for at, one in enumerate(seen)) / len(seen),
    }


async def _cancels(rig: Rig) -> dict[str, float]:
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


def table(report: Report) -> str:
    """The report as text, one part after the other."""
    heading = f"engine: {report.engine}, clock: {report.clock}, load {' → '.join(f'{one:.1f}' for one in report.load)}"
    return "\n".join([heading, *map(_line, report.rows)])


async def measure(kind: str, base: Settings, data: Path, only: list[str], clock: str) -> Report:
    """Runs the parts that are wanted, one after the other."""
    bench, load = Bench(kind, base, data, CLOCKS[kind][clock]), [os.getloadavg()[0]]
    parts: dict[str, Callable[[], Awaitable[list[Row]]]] = {
        part: getattr(bench, part) for part in PARTS if part in only or not only
    }
    rows = [row for part in parts.values() for row in await part()]
    return Report(engine=kind, clock=clock, load=[*load, os.getloadavg()[0]], rows=rows)


def _processor_s() -> float:
    """Seconds of the processor that this process and those that it has started have used; looking costs ten ms."""
    used = time.process_time()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            used += sum(child.cpu_times()[:2])
    return used


CLOCKS: dict[str, dict[str, Clock]] = {
    "llama": {"wall": time.perf_counter, "cpu": time.process_time},
    "sim": {"wall": time.perf_counter, "cpu": time.process_time},
    "vllm": {"wall": time.perf_counter, "cpu": _processor_s},
}
PARTS = ("prefix", "speculative", "slots", "quantization", "batch", "context")


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.engine_settings", description=__doc__, epilog=Report.__doc__
    )
    parser.add_argument("--engine", choices=["llama", "vllm"], default="llama")
    parser.add_argument("--data", type=Path, default=Path(".hasten"), help="the data folder; models are in its models/")
    parser.add_argument("--path", help="the model to measure, as in a row of the model table")
    parser.add_argument("--set", default="{}", metavar="JSON", help="more fields of [models.engine], for every part")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu where the machine has other work")
    parser.add_argument("--only", action="append", choices=PARTS, default=[])
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    given = parser.parse_args()
    base = {"path": given.path or SMALL.engine.path, **msgspec.json.decode(given.set)}
    if given.engine == "llama" and not given.path:
        prepare(given.data, lambda line: print(line, file=sys.stderr))
    found: list[Report] = []

    async def work() -> int:
        found.append(await measure(given.engine, base, given.data, given.only, given.clock))
        return 0

    code = run_loop(work())
    for report in found:
        print(msgspec.json.encode(report).decode() if given.json else table(report))
    return code


if __name__ == "__main__":
    sys.exit(main())
