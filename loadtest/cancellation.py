"""Measures how soon a cancel frees what it held, in line, in prefill and in decode: `python -m loadtest.cancellation`.

A NATS server and one worker with one slot, asked by a caller who leaves. `--engine` is llama (the embedded model of
`--data`), sim, vllm (`--path` of a checkpoint) or openai (`--url` of a server); `--json` prints JSON.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hasten.bench.figures import percentile
from hasten.bus import Bus
from hasten.deadline import TENANT, now_ms
from hasten.messages.chat import CANCEL, Chunk, Nothing, Turn
from hasten.messages.failure import Failure
from hasten.messages.generate import GENERATE, Generate
from hasten.models import SMALL, EngineConfig, Model
from hasten.nats_server import NatsServer
from hasten.run import run_loop
from hasten.worker.engines import engine_class
from hasten.worker.service import Worker
from hasten.worker.settings import Settings

MOST_MS = 100.0
STAGES = ("line", "prefill", "decode")
LONG = "Colours of the rainbow. " * 400
ENDLESS: dict[str, Any] = {"max_tokens": 3500, "temperature": 0.0, "extra": {"ignore_eos": True}}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """From the publish of the cancel, in ms (p50, p95, worst): until the caller hears that it is over, until the place
    in line or the slot is free, until the engine computes nothing of it any more."""

    heard_ms: tuple[float, float, float]
    free_ms: tuple[float, float, float]
    idle_ms: tuple[float, float, float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine did in each stage; `within` says whether p95 of `free_ms` is within 100 ms in all."""

    engine: str
    rounds: int
    stages: dict[str, Figures]
    within: bool


class Asking:
    """One request and what is heard of it."""

    def __init__(self, bus: Bus, request_id: str, words: str) -> None:
        self.id, self.begun = request_id, asyncio.Event()
        self.failure: Failure | None = None
        self.reading = asyncio.create_task(
            self._read(bus, Generate(messages=[Turn(role="user", content=words)], **ENDLESS))
        )

    async def _read(self, bus: Bus, request: Generate) -> None:
        given: dict[str, Any] = {"request_id": self.id, "deadline_ms": now_ms() + 1e8}
        async for event in await bus.stream(GENERATE, request, slug="m", worker="w", headers={TENANT: "acme"}, **given):
            if isinstance(event, Chunk):
                self.begun.set()
            if isinstance(event, Failure):
                self.failure = event


async def measure(options: argparse.Namespace) -> Report:
    """Starts everything, measures, and ends it."""
    engine = engine_class(options.engine).from_config(model(options), options.data)
    with tempfile.TemporaryDirectory() as folder:
        server = await NatsServer(Path(folder)).start()
        bus = await Bus.connect(server.url, name="cancellation")
        worker = Worker(Settings(worker="w"), bus, model(options), lambda: engine)
        try:
            await worker.start()
            rounds = range(options.rounds)
            found = {stage: [await once(stage, at, bus, worker, engine) for at in rounds] for stage in STAGES}
        finally:
            await worker.close()
            await bus.close()
            await server.stop(kill=True)
    stages = {stage: _figures(rows) for stage, rows in found.items()}
    within = all(figures.free_ms[1] <= MOST_MS for figures in stages.values())
    return Report(engine=options.engine, rounds=options.rounds, stages=stages, within=within)


def model(options: argparse.Namespace) -> Model:
    """The row of the table for the engine that is measured."""
    kinds: dict[str, dict[str, Any]] = {
        "llama": {"path": options.path or SMALL.engine.path},
        "sim": {"sim_decode_per_s": 20, "sim_prefill_per_s": 200, "sim_answer": "word " * 3500},
        "openai": {"url": options.url, "continues": True},
        "vllm": {"path": options.path, "vllm_dtype": "float32", "vllm_eager": True, "vllm_kv_gib": 1.0},
    }
    return Model(
        name="m",
        slug="m",
        context_window=4096,
        engine=EngineConfig(kind=options.engine, slots=1, **kinds[options.engine]),
    )


async def once(stage: str, at: int, bus: Bus, worker: Worker, engine: Any) -> tuple[float, float, float]:
    """One cancel: until it was heard, until the place was free, until the engine was idle, in ms."""
    holder = Asking(bus, f"{stage}-{at}", f"{stage} {at} " + (LONG if stage == "prefill" else "Count for ever."))
    await _until(lambda: worker.status().active == 1)
    if stage != "prefill":
        await holder.begun.wait()
    left = Asking(bus, f"waits-{at}", "Hello") if stage == "line" else holder
    if stage == "line":
        await _until(lambda: worker.status().queued == 1)
    elif stage == "prefill":
        await asyncio.sleep(0.1)
    began = time.perf_counter()
    await bus.publish(CANCEL, Nothing(), tenant="acme", request_id=left.id)
    heard, free, idle = await asyncio.gather(
        _timed(left.reading, began),
        _timed(_until(lambda: worker.status().queued == 0 and (stage == "line" or worker.status().active == 0)), began),
        _timed(_nothing() if stage == "line" else engine.drain(), began),
    )
    assert left.failure is not None, "a cancelled request must hear of it"
    if stage == "line":
        await bus.publish(CANCEL, Nothing(), tenant="acme", request_id=holder.id)
        await holder.reading
        await engine.drain()
    return heard, free, idle


async def _nothing() -> None:
    """The engine had not begun."""


async def _timed(work: Any, began: float) -> float:
    await work
    return (time.perf_counter() - began) * 1000


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110, a status is a figure that nothing announces at once
        await asyncio.sleep(0.001)


def _figures(rows: list[tuple[float, float, float]]) -> Figures:
    heard, free, idle = (
        (round(percentile(values, 0.5), 1), round(percentile(values, 0.95), 1), round(max(values), 1))
        for values in ([row[at] for row in rows] for at in range(3))
    )
    return Figures(heard_ms=heard, free_ms=free, idle_ms=idle)


def show(report: Report) -> None:
    """Prints the figures for a person."""
    print(f"{report.engine}, {report.rounds} cancels in each stage; p50 / p95 / worst in ms")
    for stage, figures in report.stages.items():
        told = {"heard": figures.heard_ms, "slot free": figures.free_ms, "engine idle": figures.idle_ms}
        print(f"  {stage:8}" + "   ".join(f"{name} {' / '.join(map(str, times))}" for name, times in told.items()))
    print(f"  slot free within {MOST_MS:g} ms at p95: {'yes' if report.within else 'NO'}")


async def run(options: argparse.Namespace) -> int:
    """Measures and prints; 1 when a slot is not free in time."""
    report = await measure(options)
    print(msgspec.json.encode(report).decode()) if options.json else show(report)
    return 0 if report.within else 1


def main() -> int:
    """Reads the options and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=["llama", "sim", "vllm", "openai"], default="llama")
    parser.add_argument("--data", type=Path, default=Path(".hasten"))
    parser.add_argument("--path", default="", help="the model file or checkpoint")
    parser.add_argument("--url", default="", help="the server, such as http://127.0.0.1:8000/v1")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    return run_loop(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
