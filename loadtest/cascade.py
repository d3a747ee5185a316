"""Measures the signs that escalate a small model's answer: do they tell its right answers from its wrong ones?

`python -m loadtest.cascade --data DIR` asks the two models of the embedded table the first questions of
nq_open_oracle, each with its passage, and counts an answer as right when it holds one of the accepted ones. Printed are
for each sign the AUC (the chance that a wrong answer is doubted more than a right one; 0.5 is none) with its 95%
interval, and the share of right answers when so many of the small model's answers are escalated: those with the lowest
mean log-probability, beside as many at random. The embedded models are one in two precisions, so that there is nothing
to gain from the better one: `ideal` is what a better model that is always right would make of the same choice, beside
`ideal at random`. `bound` is the mean log-probability that escalates that share.

The signs other than log-probabilities are counted apart. `--json` prints the figures for programs.
"""

import argparse
import asyncio
import json
import random
import re
import string
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hasten.messages.chat import Chunk, Turn
from hasten.messages.generate import Confidence, Generate
from hasten.models import LARGE, SMALL, Model
from hasten.orchestrator.settings import Settings
from hasten.orchestrator.signals import Bounds, doubt, draft_of
from hasten.worker.confidence import Tally
from hasten.worker.engines import Delta, End
from hasten.worker.engines.llama import LlamaEngine

FILE = Path("nq_open_oracle") / "nq-open-oracle.jsonl"
ASK = "Answer the question from the text, in a few words.\n\nText: {text}\n\nQuestion: {question}?"
PASSAGE_WORDS = 80
"""Around the answer there are about a hundred; what is cut makes some questions hard, which a cascade needs."""
MOST_TOKENS = 32
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)


class Answered(msgspec.Struct, kw_only=True):
    """One answer of a model."""

    text: str = ""
    finish_reason: str = ""
    first: Confidence | None = None
    whole: Confidence | None = None
    right: bool = False


class Asked(msgspec.Struct, kw_only=True):
    """A question and what both models have said."""

    small: Answered
    strong: Answered


def plain(text: str) -> str:
    """Lower case, without articles, punctuation and double spaces: SQuAD's normal form."""
    kept = "".join(" " if char in string.punctuation else char for char in text.lower())
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def is_right(text: str, accepted: Sequence[str]) -> bool:
    """Whether the answer holds one of the accepted ones, word by word."""
    said = f" {plain(text)} "
    return any(f" {plain(one)} " in said for one in accepted if plain(one))


async def answer(engine: LlamaEngine, name: str, question: dict[str, Any], first_tokens: int) -> Answered:
    """One greedy answer, with how probable its first tokens and all of them were."""
    passage = " ".join(question["ctxs"][0]["text"].split()[:PASSAGE_WORDS])
    turn = Turn(role="user", content=ASK.format(text=passage, question=question["question"]))
    request = Generate(messages=[turn], max_tokens=MOST_TOKENS, temperature=0.0, confidence_after=first_tokens)
    tally, made, texts = Tally(first_tokens), Answered(), []
    async for event in engine.generate(name, request):
        if isinstance(event, Delta):
            texts.append(event.text)
            if note := tally.add(event.logprobs):
                made.first = msgspec.convert(note.data, Confidence)
        elif isinstance(event, End):
            made.finish_reason = event.finish_reason
    if note := tally.note():
        made.whole = msgspec.convert(note.data, Confidence)
    made.text = "".join(texts)
    made.right = is_right(made.text, question["answers"])
    return made


async def answers(model: Model, home: Path, questions: Sequence[dict[str, Any]], threads: int) -> list[Answered]:
    """Those of one model, one question after the other."""
    engine = LlamaEngine.from_config(
        msgspec.structs.replace(model, engine=msgspec.structs.replace(model.engine, slots=1, threads=threads)), home
    )
    await engine.start()
    try:
        first = Settings().cascade_first_tokens
        return [await answer(engine, f"loadtest/q{at}", question, first) for at, question in enumerate(questions)]
    finally:
        await engine.close()


def auc(wrong: Sequence[float], right: Sequence[float]) -> float:
    """The chance that one of `wrong` has a lower value than one of `right`, ties counting half."""
    pairs = [(low < high) + 0.5 * (low == high) for low in wrong for high in right]
    return sum(pairs) / len(pairs) if pairs else float("nan")


def interval(values: Sequence[tuple[float, bool]], draws: random.Random) -> list[float]:
    """The 95% bootstrap interval of the AUC."""
    found = sorted(_auc_of(draws.choices(values, k=len(values))) for _ in range(300))
    return [round(found[7], 3), round(found[292], 3)]


def _auc_of(values: Sequence[tuple[float, bool]]) -> float:
    return auc([value for value, right in values if not right], [value for value, right in values if right])


def sign(asked: Sequence[Asked], which: str, figure: str, draws: random.Random) -> dict[str, Any]:
    """How well one figure tells right from wrong."""
    known = [(getattr(one.small, which), one.small.right) for one in asked]
    values = [(getattr(confidence, figure), right) for confidence, right in known if confidence is not None]
    return {"n": len(values), "auc": round(_auc_of(values), 3), "interval": interval(values, draws)}


def curve(asked: Sequence[Asked]) -> list[dict[str, float]]:
    """The share of right answers by the share that is escalated, lowest mean log-probability first."""
    order = sorted(asked, key=lambda one: one.small.whole.mean_logprob if one.small.whole else 0.0)
    small, strong = (sum(getattr(one, who).right for one in order) / len(order) for who in ("small", "strong"))
    rows = []
    for share in SHARES:
        count = round(share * len(order))
        right = sum(one.strong.right for one in order[:count]) + sum(one.small.right for one in order[count:])
        wrong = sum(not one.small.right for one in order[:count])
        edge = order[min(count, len(order) - 1)].small.whole
        rows.append(
            {
                "escalated": share,
                "right": round(right / len(order), 3),
                "at_random": round(small + share * (strong - small), 3),
                "ideal": round(small + wrong / len(order), 3),
                "ideal_at_random": round(small + share * (1 - small), 3),
                "were_wrong": round(wrong / count, 3) if count else 0.0,
                "bound": round(edge.mean_logprob, 3) if edge else 0.0,
            }
        )
    return rows


def doubts(asked: Sequence[Asked]) -> dict[str, list[int]]:
    """How many drafts each sign but the log-probabilities speaks against, and how many of them were wrong."""
    found: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for one in asked:
        draft = draft_of([Chunk(seq=0, text=one.small.text)], finish_reason=one.small.finish_reason)
        if (why := doubt(draft, Bounds())) is not None:
            found[why] += 1
            wrong[why] += not one.small.right
    return {why: [found[why], wrong[why]] for why in found}


def report(asked: Sequence[Asked]) -> dict[str, Any]:
    """All figures."""
    draws = random.Random(1)
    signs = {
        "mean log-probability": ("whole", "mean_logprob"),
        "least log-probability": ("whole", "min_logprob"),
        "mean of the first tokens": ("first", "mean_logprob"),
    }
    return {
        "questions": len(asked),
        "models": [SMALL.name, LARGE.name],
        "right": [round(sum(getattr(one, who).right for one in asked) / len(asked), 3) for who in ("small", "strong")],
        "only_strong_right": sum(one.strong.right and not one.small.right for one in asked),
        "only_small_right": sum(one.small.right and not one.strong.right for one in asked),
        "signs": {name: sign(asked, which, figure, draws) for name, (which, figure) in signs.items()},
        "doubts": doubts(asked),
        "curve": curve(asked),
    }


def show(found: dict[str, Any]) -> None:
    """The same for people."""
    print(f"{found['questions']} questions; right: {dict(zip(found['models'], found['right'], strict=True))}")
    print(f"only the stronger right: {found['only_strong_right']}, only the smaller: {found['only_small_right']}")
    for name, row in found["signs"].items():
        print(f"  AUC {name:26} {row['auc']:.3f}  {row['interval']}  n {row['n']}")
    for why, (count, wrong) in found["doubts"].items():
        print(f"  {why:26} {count} drafts, {wrong} of them wrong")
    print("  escalated  right  at random  ideal  ideal at random  were wrong  bound")
    for row in found["curve"]:
        print(
            "  {escalated:9} {right:6} {at_random:10} {ideal:6} {ideal_at_random:16} {were_wrong:11} {bound:6}".format(
                **row
            )
        )
    print(f"in {found['seconds']} s")


async def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Asks both models."""
    began, lines = time.monotonic(), (given.data / FILE).read_text().splitlines()
    questions = [msgspec.json.decode(line) for line in lines[: given.questions]]
    small = await answers(SMALL, given.home, questions, given.threads)
    strong = await answers(LARGE, given.home, questions, given.threads)
    asked = [Asked(small=one, strong=other) for one, other in zip(small, strong, strict=True)]
    return {**report(asked), "seconds": round(time.monotonic() - began)}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.cascade", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="the folder of the data sets")
    parser.add_argument("--home", type=Path, default=Path(".hasten"), help="the folder with the prepared models")
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    missing = [place for place in (given.data / FILE, given.home / "models" / SMALL.engine.path) if not place.is_file()]
    if missing:
        print(f"cascade: skipped, there is no {missing[0]}; name the folders with --data and --home", file=sys.stderr)
        return 2
    found = asyncio.run(measure(given))
    print(json.dumps(found, indent=2)) if given.json else show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
