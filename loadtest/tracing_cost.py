"""What spans cost a request: one that a service echoes, without traces, with none sampled, and with all of them.

`python -m loadtest.tracing_cost` takes turns between the three, so that what else the machine does strikes all alike.
The exporter drops what it gets: the collector's part is not the request's.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
import timeit
from pathlib import Path

import msgspec
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from hasten.bus import Bus
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.nats_server import NatsServer
from hasten.service import Call, Service
from hasten.tracing import Tracing

CHECKS = 5
"""How often a request and its reply ask whether there are traces, where there are none."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Medians in microseconds per request, and that of asking whether there are traces."""

    off_us: float
    unsampled_us: float
    sampled_us: float
    checks_us: float


class _Dropped(SpanExporter):
    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class _Unsampled(BatchSpanProcessor):
    """Sees nothing, since nothing is recorded."""

    def on_end(self, span: ReadableSpan) -> None:
        raise AssertionError("a span that is not sampled was recorded")


async def cost(rounds: int, calls: int) -> Cost:
    """Measures on a server and a connection of its own."""
    with tempfile.TemporaryDirectory() as folder:
        server = await NatsServer(Path(folder) / "jetstream").start()
        serving, asking = await Bus.connect(server.url), await Bus.connect(server.url)
        service = Service(serving, "echo", "Answers at once")
        service.answer(EMBED, _echo, limit=100)
        await service.start()
        sampled = Tracing(BatchSpanProcessor(_Dropped()), {})
        os.environ["OTEL_TRACES_SAMPLER"] = "always_off"
        unsampled = Tracing(_Unsampled(_Dropped()), {})
        took: dict[Tracing | None, list[float]] = {None: [], unsampled: [], sampled: []}
        for at in range(rounds + 1):
            for tracing, times in took.items():
                serving.tracing = asking.tracing = tracing
                if tracing is sampled:
                    os.environ.pop("OTEL_TRACES_SAMPLER", None)
                spent = await _round(asking, calls)
                if at:
                    times.append(spent)
        await service.close()
        await asking.close()
        await serving.close()
        await server.stop(kill=True)
        sampled.close()
        unsampled.close()
        checks = timeit.timeit("bus.tracing is None", globals={"bus": serving}, number=100_000) / 100_000
    off, none, all_ = (statistics.median(took[tracing]) for tracing in (None, unsampled, sampled))
    return Cost(
        off_us=round(off, 1),
        unsampled_us=round(none, 1),
        sampled_us=round(all_, 1),
        checks_us=round(CHECKS * checks * 1e6, 3),
    )


async def _echo(request: Embed, _: Call) -> Embedded:
    return Embedded(vectors=[], dim=0, model="echo")


async def _round(bus: Bus, calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        reply = await bus.request(EMBED, Embed(texts=[]), tenant="loadtest")
        assert isinstance(reply, Embedded), reply
    return (time.perf_counter() - began) / calls * 1e6


def main() -> None:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = asyncio.run(cost(options.rounds, options.calls))
    if options.json:
        print(msgspec.json.encode(found).decode())
        return
    print(
        f"no traces   {found.off_us:7.1f} µs per request, of which {found.checks_us:.3f} µs ask whether there are any"
    )
    for name, spent in (("none sampled", found.unsampled_us), ("all sampled", found.sampled_us)):
        print(f"{name:<12}{spent:7.1f} µs per request, {spent / found.off_us:.2f} times")


if __name__ == "__main__":
    main()
