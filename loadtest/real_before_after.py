"""The before-and-after on the real embedded model, small: the model asked directly, and through hasten.

    python -m loadtest.real_before_after --data DIR [--count N] [--json]

Nothing is simulated. Without hasten the model (SmolLM2-135M, Q8_0) reads the eight passages that the retriever
ranks first, whole, and nobody sees a word before the last one. With hasten the same model, in the same file, stands
behind cache, router, compressor and stream, all at their defaults. One caller asks; 35% of the questions are repeated,
as in `loadtest.before_after`. An answer to a question of nq_open_oracle is right if it holds an accepted one. So small
a model is often wrong, and the figure is there to show that less prompt does not make it worse.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.models import SMALL, Model
from loadtest.before_after_row import Spread, spread
from loadtest.bus_caller import BusCaller
from loadtest.cascade import is_right
from loadtest.engine_rig import Rig, running
from loadtest.naive import messages_of
from loadtest.pairs import DataError
from loadtest.sample import Sample
from loadtest.whole_system import COLLECTION, Setup, WholeSystem, whole_system
from loadtest.workload import TEST, Request, documents, questions, requests

REPEATS, SEED, COUNT, PASSAGES = 0.35, 1, 40, 8
SOURCES = {"nq": 0.6, "fow": 0.4}
MOST_TOKENS = 48
DOCUMENTS = 300
"""So many of nq_open_oracle's passages that ingestion takes seconds; the gold ones of what is asked are among them."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """What one way of asking came to; times in ms, `per_s` requests a second of one caller."""

    ttft: Spread
    total: Spread
    per_s: float
    prompt_tokens: float
    hits: float
    right: float
    with_answer: int


def side(asked: Sequence[Request], samples: Sequence[Sample], took_s: float) -> Side:
    """The figures; raises RuntimeError when a request failed."""
    if failed := [one.outcome for one in samples if not one.ok]:
        raise RuntimeError(f"{len(failed)} requests failed: {failed[0]}")
    right = [
        is_right(sample.text, request.question.answers)
        for request, sample in zip(asked, samples, strict=True)
        if request.question.answers
    ]
    called = [one.prompt_tokens for one in samples if not one.hit]
    return Side(
        ttft=spread([one.ttft_ms or one.total_ms for one in samples]),
        total=spread([one.total_ms for one in samples]),
        per_s=len(samples) / took_s,
        prompt_tokens=sum(called) / len(called),
        hits=sum(one.hit for one in samples) / len(samples),
        right=sum(right) / len(right),
        with_answer=len(right),
    )


async def with_hasten(system: WholeSystem, asked: Sequence[Request]) -> Side:
    """Everything on, as it is by default."""
    caller, samples = BusCaller(system.hasten, {}, timeout_s=120.0, texts=True), list[Sample]()
    began = time.perf_counter()
    for request in asked:
        turns = [{"role": "user", "content": request.text}]
        body: dict[str, Any] = {"messages": turns, "knowledge": [COLLECTION], "max_tokens": MOST_TOKENS}
        samples.append(await caller.ask(body, time.perf_counter()))
    return side(asked, samples, time.perf_counter() - began)


async def direct(rig: Rig, asked: Sequence[Request], passages: dict[str, list[str]]) -> tuple[Side, Side]:
    """The model alone, each prompt computed from its beginning: as it is seen when it is whole, and if it streamed."""
    samples, first, began = [], list[float](), time.perf_counter()
    for at, request in enumerate(asked):
        turns: list[Turn] = messages_of(request.text, "\n\n".join(passages[request.text]))
        since = time.perf_counter()
        wanted = Generate(messages=turns, max_tokens=MOST_TOKENS, temperature=0.0, seed=1)
        answer = await rig.ask(wanted, key=f"caller{at}/1")
        total_ms = 1000 * (time.perf_counter() - since)
        sample = Sample(cache="miss", ttft_ms=total_ms, total_ms=total_ms, text=answer.text)
        sample.prompt_tokens = answer.prompt_tokens
        samples.append(sample)
        first.append(answer.ttft_ms)
    whole = side(asked, samples, time.perf_counter() - began)
    return whole, msgspec.structs.replace(whole, ttft=spread(first))


async def measured(data: Path, weights: Path, count: int) -> dict[str, Side]:
    """Both sides, one after the other, so that neither takes the other's processors; raises DataError."""
    asked = requests(questions(data, TEST), count, REPEATS, SEED, SOURCES)
    model = msgspec.structs.replace(SMALL, slug="small")
    setup = Setup(token_budget=model.token_budget)
    async with whole_system([model], setup, weights) as system:
        await system.ingest(_few(data, asked))
        passages = {text: await system.passages(text, PASSAGES) for text in dict.fromkeys(one.text for one in asked)}
        ours = await with_hasten(system, asked)
    async with running(_alone(model), weights.parent, time.perf_counter) as rig:
        whole, streamed = await direct(rig, asked, passages)
        return {"without hasten": whole, "without hasten, streamed": streamed, "with hasten": ours}


def _few(data: Path, asked: Sequence[Request]) -> list[Any]:
    """Documents with an answer to what is asked, and others up to `DOCUMENTS`."""
    answers = {answer for one in asked for answer in one.question.answers}
    every = documents(data, TEST)
    needed = [one for one in every if any(answer in one.text for answer in answers)]
    return (needed + [one for one in every if one not in needed])[: max(DOCUMENTS, len(needed))]


def _alone(model: Model) -> Model:
    return msgspec.structs.replace(model, engine=msgspec.structs.replace(model.engine, slots=1))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--models", type=Path, default=Path(".hasten/models"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        found = asyncio.run(measured(given.data, given.models.absolute(), given.count))
    except DataError as error:
        print(f"real_before_after: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps(msgspec.to_builtins(found), indent=2))
        return 0
    print("Nothing is simulated: SmolLM2-135M (Q8_0) on this machine's processors.")
    for name, one in found.items():
        times = f"first word P50 {one.ttft.p50:.0f}, P95 {one.ttft.p95:.0f} ms; whole P50 {one.total.p50:.0f}"
        rest = f"{one.per_s:.2f} req/s; {one.prompt_tokens:.0f} prompt tokens; {one.hits:.0%} hits"
        right = f"right {one.right:.0%} of {one.with_answer}"
        print(f"{name}: {times}, P95 {one.total.p95:.0f} ms; {rest}; {right}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
