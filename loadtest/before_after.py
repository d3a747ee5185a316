"""The published before-and-after: a naive pipeline and hasten on the same simulated models, and each lever alone.

    python -m loadtest.before_after --data DIR [--stack 1|2] [--repeats 0 20 35 55] [--json] [--out DIR] [--quick]

Only the models are simulated, and in the naive pipeline its stages, pinned to the published times. In hasten everything
really runs: NATS, embedder, retriever, cache with its guards, router, compressor, and a worker per model in front of a
provider with a fixed number of slots for both models and for either system. The slots are few, so that the provider is
what limits both, and not the processors of this machine. `--out` writes before-and-after-<stack>.html and .json,
and `--page docs/before-and-after.md` puts the tables there.
"""

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hasten.compressor.hf_tokenizer import HfTokenizer
from hasten.messages.chat import Turn
from loadtest.arrivals import poisson
from loadtest.before_after_report import LEAD, Bound, Report, Step, filled, markdown, page_of
from loadtest.before_after_row import Row, row
from loadtest.before_after_run import AskFor, at_moments, hasten_asks, naive_asks, saturated, steady_rate
from loadtest.naive import Naive, WholePrompt, waits_ms
from loadtest.pairs import DataError
from loadtest.sample import Sample
from loadtest.stages import LARGE, STACKS, Stack
from loadtest.whole_system import ProviderProcess, Setup, WholeSystem, config_of, provider, rows, whole_system
from loadtest.workload import TEST, TRAIN, Question, Request, documents, questions, requests

SLOTS = 8
BUDGET, PASSAGES = 400, 12
"""Chosen on the other half of the questions (loadtest.prompt_budget), and by what a first token within 400 ms leaves
for the large model's prompt: 400 tokens take it 231 ms, the network 120."""
HEADLINE = 35
WHOLE = {"1": 60, "2": 150}
"""Passages that are more than enough to fill the naive prompt."""
SEED = 1
BOUNDS = {
    "1": ((400.0, False), (800.0, False), (3280.0, False), (4800.0, True)),
    "2": ((400.0, False), (450.0, False), (8450.0, False), (10_000.0, True)),
}
"""On the P95 in ms, and whether of the whole answer: the goal, what was published after and before."""
LADDER = (1.0, 2.0, 3.0, 4.0, 4.5, 5.0, 5.5, 6.0)
"""Rates, as multiples of what saturates the naive pipeline."""
LEVER_RATE = 0.75
CALLERS_PER_SLOT = 5
COMPUTED_S = 20_000.0
WARM_UP = 24


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests each run has, and for how long each rate of the ladder is kept."""

    naive: int = 100
    main: int = 300
    saturated: int = 260
    lever: int = 100
    rate_s: float = 25.0


QUICK = Size(naive=24, main=60, saturated=60, lever=30, rate_s=5.0)


class Bench:
    """Both systems in front of their providers, and the questions."""

    def __init__(
        self, stack: Stack, size: Size, pool: dict[str, list[Question]], system: WholeSystem, own: ProviderProcess
    ) -> None:
        self.stack, self.size, self.pool, self.system, self.own = stack, size, pool, system, own
        self.naive_per_s = 1000 * SLOTS / stack.total_ms

    def asked(self, count: int, repeats: float, seed: int = SEED) -> list[Request]:
        """The requests of a run."""
        return requests(self.pool, count, repeats, seed)

    def arrivals(self, count: int, rate: float, seed: int = SEED) -> list[float]:
        """Their moments."""
        return poisson(rate, 2 * count / rate + 60, seed)[:count]

    async def run(self, name: str, ask: AskFor, count: int, repeats: float, rate: float, **about: Any) -> Row:
        """One run of hasten from an empty cache."""
        await self.system.forget()
        await self.own.records()
        asked = self.asked(count, repeats)
        samples = await at_moments(ask, asked, self.arrivals(count, rate))
        tell(f"{name}: {rate:.1f}/s, {count} requests")
        return row(name, asked, samples, await self.own.records(), repeats=repeats, rate=rate, **about)

    async def saturate(self, name: str, repeats: float) -> Row:
        """Hasten with more callers than slots."""
        await self.system.forget()
        await self.own.records()
        asked = self.asked(self.size.saturated, repeats)
        samples = await saturated(hasten_asks(self.system), asked, CALLERS_PER_SLOT * SLOTS)
        tell(f"{name}: {steady_rate(samples):.1f}/s")
        return row(name, asked, samples, await self.own.records(), repeats=repeats, rate=steady_rate(samples))


def tell(text: str) -> None:
    """Progress, to stderr."""
    print(f"  {text}", file=sys.stderr, flush=True)


async def naive_prompts(
    system: WholeSystem, stack: Stack, asked: Sequence[Request], weights: Path
) -> dict[str, list[Turn]]:
    """The prompt of each text: what the real retriever ranks first, whole, up to the tokens of the stack."""
    whole = WholePrompt(HfTokenizer(weights / "smollm2"), stack.prompt_tokens)
    return {
        text: whole.of(text, await system.passages(text, WHOLE[stack.name]))
        for text in dict.fromkeys(one.text for one in asked)
    }


async def naive_rows(bench: Bench, prompts: dict[str, list[Turn]], weights: Path) -> tuple[Row, Row, Row]:
    """The naive pipeline at half of what saturates it, the same with its tokens shown as they come, and saturated; each
    with a provider of its own."""
    stack, count, rate = bench.stack, bench.size.naive, 0.5 * bench.naive_per_s
    asked, arrivals = bench.asked(count, HEADLINE / 100), bench.arrivals(count, rate)
    async with contextlib.AsyncExitStack() as stack_of:
        every = [one for some in bench.pool.values() for one in some]
        own = [await stack_of.enter_async_context(provider(stack, SLOTS, every, weights)) for _ in range(3)]
        plain, streaming, busy = (
            naive_asks(Naive(stack, one.url, SLOTS, streamed=at == 1), prompts) for at, one in enumerate(own)
        )
        few = asked[: 6 * SLOTS]
        found = await asyncio.gather(
            at_moments(plain, asked, arrivals),
            at_moments(streaming, asked, arrivals),
            saturated(busy, few, CALLERS_PER_SLOT * SLOTS),
        )
        seen = [await one.records() for one in own]
    full = steady_rate(found[2])
    tell(f"naive: {rate:.2f}/s, {count} requests; saturated {full:.2f}/s")
    return (
        row("naive", asked, found[0], seen[0], repeats=HEADLINE / 100, rate=rate, streamed=False),
        row("naive, streamed", asked, found[1], seen[1], repeats=HEADLINE / 100, rate=rate),
        row("naive, saturated", few, found[2], seen[2], repeats=HEADLINE / 100, rate=full, streamed=False),
    )


def naive_rate(stack: Stack, bound_ms: float) -> float:
    """The most requests a second whose P95 is within a bound, in steps of a hundredth of what saturates it; exact, as
    no stage varies."""

    def within(step: int) -> bool:
        rate = step / 100 * 1000 * SLOTS / stack.total_ms
        taken = sorted(waits_ms(poisson(rate, COMPUTED_S, SEED), SLOTS, stack.total_ms))
        return taken[int(0.95 * len(taken))] <= bound_ms + 0.01

    fits, beyond = 0, 100
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        fits, beyond = (middle, beyond) if within(middle) else (fits, middle)
    return fits / 100 * 1000 * SLOTS / stack.total_ms


async def levers(bench: Bench, url: str, plain: Setup) -> list[Row]:
    """Each lever alone: hasten with all of the others off, on the whole retrieval and the large model."""
    stack, size, share = bench.stack, bench.size, HEADLINE / 100
    whole = Setup(token_budget=stack.prompt_tokens, passages=WHOLE[stack.name])
    rate = LEVER_RATE * bench.naive_per_s
    alone: list[tuple[str, Setup, dict[str, Any], bool]] = [
        ("stages side by side", whole, {"model": LARGE, "cache": {"mode": "off"}}, False),
        ("streaming", whole, {"model": LARGE, "cache": {"mode": "off"}}, True),
        ("single flight", whole, {"model": LARGE, "cache": {"mode": "exact", "store": False}}, False),
        ("exact cache", whole, {"model": LARGE, "cache": {"mode": "exact"}}, False),
        ("exact and semantic cache", whole, {"model": LARGE}, False),
        ("routing", whole, {"cache": {"mode": "off"}}, False),
        ("compression", plain, {"model": LARGE, "cache": {"mode": "off"}}, False),
        ("all together", plain, {}, True),
    ]
    made, current = [], plain
    for name, setup, options, streamed in alone:
        if setup != current:
            await bench.system.configure(config_of(rows(stack, url, SLOTS, setup), setup))
            current = setup
        ask = hasten_asks(bench.system, **options)
        made.append(await bench.run(name, ask, size.lever, share, rate, streamed=streamed))
    return made


async def measured(
    data: Path, weights: Path, stack: Stack, repeats: Sequence[int], size: Size, *, ablation: bool
) -> Report:
    """Everything; raises DataError."""
    pool = questions(data, TEST)
    every, load = [one for some in pool.values() for one in some], os.getloadavg()[0]
    setup = Setup(token_budget=BUDGET, passages=PASSAGES)
    known = [*every, *(one for some in questions(data, TRAIN).values() for one in some)]
    async with (
        provider(stack, SLOTS, known, weights) as own,
        whole_system(rows(stack, own.url, SLOTS, setup), setup, weights) as system,
    ):
        await system.ingest(documents(data, TEST))
        bench = Bench(stack, size, pool, system, own)
        tell("the documents are there")
        prompts = await naive_prompts(system, stack, bench.asked(size.naive, HEADLINE / 100), weights)
        naive = await naive_rows(bench, prompts, weights)
        await _warm(system, data)
        rate, ask = 2 * bench.naive_per_s, hasten_asks(system)
        main = [await bench.run("hasten", ask, size.main, share / 100, rate) for share in repeats]
        by_label = hasten_asks(system, by_label=True)
        label = await bench.run("hasten, models by label", by_label, size.main, HEADLINE / 100, rate)
        full = [await bench.saturate("hasten, saturated", share / 100) for share in repeats]
        steps = [await _step(bench, ask, times) for times in (LADDER if size is not QUICK else LADDER[1::3])]
        alone = await levers(bench, own.url, setup) if ablation else []
    return Report(
        stack=stack,
        slots=SLOTS,
        token_budget=BUDGET,
        passages=PASSAGES,
        naive=list(naive),
        main=main,
        by_label=label,
        saturated=full,
        ladder=steps,
        bounds=[Bound(ms=ms, whole=whole, naive=naive_rate(stack, ms)) for ms, whole in BOUNDS[stack.name]],
        levers=alone,
        load=[round(load, 1), round(os.getloadavg()[0], 1)],
    )


async def _step(bench: Bench, ask: AskFor, times: float) -> Step:
    rate = times * bench.naive_per_s
    found = await bench.run(f"{times:g} times", ask, max(20, round(rate * bench.size.rate_s)), HEADLINE / 100, rate)
    return Step(
        rate=rate, ttft_p95=found.ttft.p95, ttft_p99=found.ttft.p99, total_p95=found.total.p95, failed=found.failed
    )


async def _warm(system: WholeSystem, data: Path) -> None:
    """Asks questions of the other half, so that all code has run and the router has measured both models."""
    asked, ask = requests(questions(data, TRAIN), WARM_UP, 0.0, SEED), hasten_asks(system, by_label=True)
    samples: list[Sample] = await saturated(ask, asked, SLOTS // 2)
    if failed := [one.outcome for one in samples if not one.ok]:
        raise RuntimeError(f"hasten does not answer: {failed[0]}")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--stack", choices=sorted(STACKS), default="1")
    parser.add_argument("--repeats", type=int, nargs="+", default=[0, 20, HEADLINE, 55], help="percent of repeats")
    parser.add_argument("--models", type=Path, default=Path(".hasten/models"))
    parser.add_argument("--no-ablation", action="store_true", help="leave out the levers alone")
    parser.add_argument("--quick", action="store_true", help="a few requests: shows that it works, measures little")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="a folder for the HTML and JSON reports")
    parser.add_argument("--page", type=Path, help="a page of documentation to put the tables into")
    given = parser.parse_args()
    size = QUICK if given.quick else Size()
    try:
        report = asyncio.run(
            measured(
                given.data,
                given.models.resolve(),
                STACKS[given.stack],
                given.repeats,
                size,
                ablation=not given.no_ablation,
            )
        )
    except DataError as error:
        print(f"before_after: {error}", file=sys.stderr)
        return 2
    plain = msgspec.json.format(msgspec.json.encode({"about": LEAD, **msgspec.to_builtins(report)}), indent=1).decode()
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        name = f"before-and-after-{given.stack}"
        (given.out / f"{name}.json").write_text(plain + "\n")
        (given.out / f"{name}.html").write_text(page_of(report))
    if given.page:
        given.page.write_text(filled(given.page.read_text(), report))
    print(plain if given.json else f"{LEAD}\n\n{markdown(report)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
