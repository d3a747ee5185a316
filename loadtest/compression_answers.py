"""Asks the embedded model with whole and with compressed passages, and counts the right answers of each.

    python -m loadtest.compression_answers --data DIR [--questions N] [--share .2] [--cache DIR] [--json]

DIR holds nq_open_oracle: each question with twenty passages, one of which has the answer. Only questions that no
parameter of the compressor was chosen on are asked. An answer is right when it holds one of the accepted ones; it is
greedy and at most 32 tokens long. Whole prompts take the embedded model several seconds each.
"""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

import msgspec

from hasten.compressor.tokenizer_folder import TokenizerFolder
from hasten.messages.compress import Compressed
from hasten.messages.generate import Generate
from hasten.models import SMALL
from hasten.weights import folder as weights_folder
from loadtest.cascade import is_right
from loadtest.compression_cases import Case, Shelf, readers
from loadtest.compression_quality import real
from loadtest.compression_ways import WINDOW, press
from loadtest.engine_rig import Rig, model_of, running
from loadtest.pairs import DataError

SET = "nq, 20 passages"
MOST_TOKENS = 32
CONTEXT = 4096


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Means over the questions: right answers (0 to 1), tokens of the prompt, milliseconds to the first token."""

    questions: int
    right: float
    prompt_tokens: float
    ttft_ms: float


class Tally:
    """What one kind of prompt has led to."""

    def __init__(self) -> None:
        self.right: list[bool] = []
        self.tokens: list[int] = []
        self.ttft: list[float] = []

    async def ask(self, rig: Rig, made: Compressed, case: Case) -> None:
        """Asks with this prompt; the engine keeps no prefix, so that each pays for all of it."""
        wanted = Generate(messages=made.messages, max_tokens=MOST_TOKENS, temperature=0.0, seed=1)
        answer = await rig.ask(wanted, key=f"acme/{time.monotonic_ns()}")
        self.right.append(is_right(answer.text, [text for fact in case.facts for text in fact.texts]))
        self.tokens.append(answer.prompt_tokens)
        self.ttft.append(answer.ttft_ms)

    def figures(self) -> Figures:
        """The means."""
        many = len(self.right)
        return Figures(
            questions=many,
            right=round(sum(self.right) / many, 3),
            prompt_tokens=round(sum(self.tokens) / many),
            ttft_ms=round(sum(self.ttft) / many),
        )


async def measure(cases: list[Case], share: float, models: Path) -> dict[str, Figures]:
    """Asks every question with the whole prompt and with `share` of its tokens."""
    counter = TokenizerFolder(weights_folder(models)).load(SMALL.tokenizer)
    whole, short = Tally(), Tally()
    model = model_of("llama", SMALL.engine.path, CONTEXT, threads=1)
    async with running(model, models, time.monotonic) as rig:
        for number, case in enumerate(cases, 1):
            full = press(case, counter, WINDOW)
            if full.tokens_after > CONTEXT - MOST_TOKENS:
                continue
            await whole.ask(rig, full, case)
            await short.ask(rig, press(case, counter, int(share * full.tokens_before)), case)
            print(f"\r{number}/{len(cases)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {"whole": whole.figures(), f"{share:.0%} of the tokens": short.figures()}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="the folder of the data sets")
    parser.add_argument("--models", type=Path, default=Path(".hasten"), help="the data folder with the models")
    parser.add_argument("--cache", type=Path, help="keep the vectors in this folder")
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--share", type=float, default=0.2, help="of the prompt's tokens that may stay, 0 to 1")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the lines")
    asked = parser.parse_args()
    try:
        documents, cases = readers(400)[SET](asked.data)
    except (DataError, OSError) as error:
        print(f"compression_answers: {error}; name the folder with nq_open_oracle with --data", file=sys.stderr)
        return 2
    encode = real(asked.models)
    shelf = Shelf(SET.split(",")[0], documents, encode, asked.cache)
    kept_out = [case for case in cases(shelf, encode) if case.half == 1][: asked.questions]
    found = asyncio.run(measure(kept_out, asked.share, asked.models))
    if asked.json:
        print(json.dumps(msgspec.to_builtins(found)))
        return 0
    for name, one in found.items():
        cost = f"{one.prompt_tokens} tokens, {one.ttft_ms} ms to the first"
        print(f"{name}: right {one.right:.3f} of {one.questions}, {cost}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
