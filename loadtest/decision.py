"""How long the router takes to decide, for tables and fleets of several sizes, with full latency windows.

    python -m loadtest.decision [--json]

One thread, no NATS: what the handler of `hasten.v1.route` does between the request and its reply. `hasten bench` has
the same with the round trip. The budget is 1 ms.
"""

import argparse
import json
import random
import time

from hasten.bench.figures import percentile
from hasten.messages.attempt import Attempted
from hasten.messages.generate import Status
from hasten.messages.route import Route
from hasten.models import Model, ModelTable
from hasten.router.decision import decide
from hasten.router.knowledge import Knowledge
from hasten.router.settings import Settings

SIZES = ((2, 2), (5, 4), (20, 8))
"""Models, and workers of each."""
DECISIONS = 3000
PER_S = 100
"""Decisions in a second: the figures of the windows are computed anew once in it."""
ASKED = Route(
    text="Explain why the tide rises, and compare the trade-offs of building a harbour here or further up the river.",
    vector=bytes(4 * 384),
    prompt_tokens=500,
    latency_budget_ms=900,
)


def knowledge(models: int, workers: int, now_s: float, unix_s: float) -> Knowledge:
    """What a router knows of a fleet that has been busy for minutes."""
    chance = random.Random(models)
    table = [
        Model(name=f"m{at}", slug=f"m{at}", quality=at / models, cost_per_1k_completion=at + 1.0)
        for at in range(models)
    ]
    made = Knowledge(ModelTable(table), Settings())
    for model in table:
        for at in range(workers):
            status = Status(seq=1, started_ms=1, state="ready", engine="sim", model=model.name, slots=8, queue_limit=9)
            made.status(model.slug, f"w{at}", status, now_s)
        for seq in range(1, 1001):
            event = Attempted(
                source=model.slug,
                seq=seq,
                at_ms=(unix_s - 500 + seq / 2) * 1000,
                flight="f",
                worker="w0",
                outcome="done",
                ttft_ms=chance.lognormvariate(6, 0.5),
                total_ms=2000.0,
            )
            made.attempted(model.slug, event, now_s, unix_s)
    return made


def measure(models: int, workers: int) -> list[float]:
    """The time of each decision in ms."""
    now_s, unix_s = time.monotonic(), time.time()
    known, policy, times = knowledge(models, workers, now_s, unix_s), Settings(), list[float]()
    for at in range(DECISIONS):
        began = time.perf_counter()
        decide(ASKED, f"r{at}", known.snapshot(now_s, unix_s + at / PER_S, ASKED.prefix), policy)
        times.append((time.perf_counter() - began) * 1000)
    return times


def main() -> None:
    """Prints a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = []
    for models, workers in SIZES:
        times = measure(models, workers)
        p50, p99 = (round(percentile(times, share), 3) for share in (0.5, 0.99))
        rows.append({"models": models, "workers": models * workers, "p50_ms": p50, "p99_ms": p99})
    if given.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['models']} models, {row['workers']} workers: p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms")


if __name__ == "__main__":
    main()
