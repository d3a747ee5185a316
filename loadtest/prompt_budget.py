"""How much of the evidence is left in a prompt of so many tokens, and from there the budget of the before-and-after.

    python -m loadtest.prompt_budget --data DIR [--half 0|1] [--json]

The half 0 of the questions of nq_open_oracle and hotpot100 is asked of the real retriever, whose passages the real
compressor fits into each budget. `whole` is what the naive pipeline has: all that is retrieved, up to 3,200 tokens.
The rule: the smallest of the budgets that keeps at least 95% of the evidence that is in the whole retrieval.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hasten.compressor.hf_tokenizer import HfTokenizer
from hasten.messages.chat import Turn
from hasten.messages.compress import COMPRESS, Compress, Compressed
from hasten.messages.retrieve import RETRIEVE, Passage, Retrieve, Retrieved
from loadtest.naive import WholePrompt
from loadtest.pairs import DataError
from loadtest.stages import FIRST
from loadtest.whole_system import COLLECTION, TENANT, WINDOW, Setup, WholeSystem, rows, whole_system
from loadtest.workload import TRAIN, Question, documents, questions

BUDGETS = (150, 200, 250, 300, 350, 400, 500, 600, 800, 1200)
KEPT = 0.95
PASSAGES, WHOLE = 12, 60


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The share of the questions of each source whose evidence is in the prompt, and its mean length."""

    budget: str
    nq: float
    hotpot: float
    both: float
    tokens: float


async def _retrieved(system: WholeSystem, question: str) -> list[Passage]:
    body = Retrieve(query=question, knowledge=[COLLECTION], limit=WHOLE)
    found = await system.hasten.bus.request(RETRIEVE, body, tenant=TENANT)
    assert isinstance(found, Retrieved), found
    return found.passages


async def _compressed(system: WholeSystem, question: str, passages: list[Passage], budget: int) -> Compressed:
    body = Compress(
        messages=[Turn(role="user", content=question)],
        passages=passages,
        tokenizer="smollm2",
        token_budget=budget,
        context_window=WINDOW,
        max_tokens=512,
    )
    made = await system.hasten.bus.request(COMPRESS, body, tenant=TENANT)
    assert isinstance(made, Compressed), made
    return made


def _row(budget: str, asked: Sequence[Question], kept: Sequence[bool], tokens: Sequence[int]) -> Kept:
    def share(source: str) -> float:
        some = [had for one, had in zip(asked, kept, strict=True) if one.source == source]
        return sum(some) / len(some)

    both = sum(kept) / len(kept)
    return Kept(budget=budget, nq=share("nq"), hotpot=share("hotpot"), both=both, tokens=sum(tokens) / len(tokens))


def chosen(found: Sequence[Kept]) -> int:
    """The budget by the rule; the last row is the whole retrieval."""
    enough = KEPT * found[-1].both
    return next((int(row.budget) for row in found[:-1] if row.both >= enough), int(found[-2].budget))


async def measured(data: Path, half: int, weights: Path) -> list[Kept]:
    """A row for each budget, and one for the whole retrieval."""
    pool = questions(data, half)
    asked = [one for source in ("nq", "hotpot") for one in pool[source]]
    setup = Setup(token_budget=BUDGETS[0])
    async with whole_system(rows(FIRST, "http://127.0.0.1:9/v1", 1, setup), setup, weights, workers=False) as system:
        await system.ingest(documents(data, half))
        found = [await _retrieved(system, one.text) for one in asked]
        table = []
        for budget in BUDGETS:
            made = [
                await _compressed(system, one.text, passages[:PASSAGES], budget)
                for one, passages in zip(asked, found, strict=True)
            ]
            kept = [
                one.evidence_in(prompt.messages[-1].text.removesuffix(one.text))
                for one, prompt in zip(asked, made, strict=True)
            ]
            table.append(_row(str(budget), asked, kept, [prompt.tokens_after for prompt in made]))
    whole = WholePrompt(HfTokenizer(weights / "smollm2"), FIRST.prompt_tokens)
    prompts = [
        whole.of(one.text, [p.text for p in passages])[-1].text for one, passages in zip(asked, found, strict=True)
    ]
    kept = [one.evidence_in(prompt.removesuffix(one.text)) for one, prompt in zip(asked, prompts, strict=True)]
    return [*table, _row("whole", asked, kept, [FIRST.prompt_tokens] * len(asked))]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--half", type=int, choices=(0, 1), default=TRAIN)
    parser.add_argument("--models", type=Path, default=Path(".hasten/models"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        table = asyncio.run(measured(given.data, given.half, given.models.resolve()))
    except DataError as error:
        print(f"prompt_budget: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps({"rows": msgspec.to_builtins(table), "chosen": chosen(table)}, indent=2))
        return 0
    print(f"{'budget':>8} {'nq':>6} {'hotpot':>7} {'both':>6} {'tokens':>7}")
    for row in table:
        print(f"{row.budget:>8} {row.nq:6.3f} {row.hotpot:7.3f} {row.both:6.3f} {row.tokens:7.0f}")
    print(f"at least {KEPT:.0%} of what the whole retrieval has: {chosen(table)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
