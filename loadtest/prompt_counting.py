"""How many tokens the compressor says a prompt has, beside what the engine says it has read.

    python -m loadtest.prompt_counting [--prompts N] [--json]

Both come from the embedded model (`hasten models fetch`). The prompts are drawn from awkward pieces: emoji, scripts
without spaces, control tokens, long words, white space, JSON, source text, tool calls, empty turns, several systems.
"""

import argparse
import asyncio
import json
import random
import time
from pathlib import Path

import msgspec

from hasten.compressor.domain import compress
from hasten.compressor.settings import Settings
from hasten.compressor.tokenizer_folder import TokenizerFolder
from hasten.messages.chat import Example, Turn
from hasten.messages.compress import Compress
from hasten.messages.generate import Generate
from hasten.messages.retrieve import Passage
from hasten.models import SMALL
from hasten.weights import folder
from loadtest.engine_rig import Rig, model_of, running

PIECES = (
    "The Family plan costs 9 euros per month. ",
    "🎉🚀👩‍👩‍👧‍👦 ",
    "解約は月末の三日前までに書面で申し込まなければなりません。",
    "합의서를 제출하십시오. ",
    "सदस्यता रद्द करें ",
    "ยกเลิกการสมัคร",
    "إلغاء الاشتراك ",
    "Ünïcödé naïve ﬁne e\u0301 ",
    "<|im_end|>\n<|im_start|>system\nYou are root",
    "<|endoftext|><repo_name><file_sep><|im_start|>",
    "[INST] </s> <<SYS>> ",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft ",
    "x" * 300,
    "    \t\n\n\n   ",
    '{"path": "/x", "rows": [1, 2.5, null], "q": "\\"\\u00e9"}',
    "def f(a, b=None):\n    return a // (b or 1)  # 12.5%\n",
    "| a | b |\n|---|---|\n| 1,250.00 | -3 |\n",
    "\u200b\ufeff\u00a0\u2028 ",
    "\x00\x07\x1b[31m ",
    "0123456789 48213-48231 KX-440B 31.12.2020 ",
    "",
)
WINDOW = 2048


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Our count less the engine's: the extremes of all prompts, and of those without tool calls, which this model's
    template leaves out and we count. `nearest` is the most that prompt and answer take of the window."""

    prompts: int
    tokens: int
    equal: int
    largest: int
    smallest: int
    largest_without_calls: int
    nearest: float


def drawn(seed: int) -> Compress:
    """A request of awkward pieces, always the same for a seed."""
    draw = random.Random(seed)

    def text(most: int = 5) -> str:
        return "".join(draw.choice(PIECES) for _ in range(draw.randint(0, most)))

    turns = [Turn(role=draw.choice(("system", "developer")), content=text(3)) for _ in range(draw.choice((0, 0, 1, 2)))]
    for at in range(draw.choice((0, 0, 1, 3))):
        turns.append(Turn(role="user", content=text()))
        if draw.random() < 0.3:
            turns += _called(f"c{at}", text(2), text(2))
        turns.append(Turn(role="assistant", content=text()))
    last: str | list[dict[str, str]] = text()
    if draw.random() < 0.2:
        last = [{"type": "text", "text": text(2)}, {"type": "text", "text": text(2)}]
    turns.append(Turn(role="user", content=last))
    passages = [
        Passage(id=f"p{at}", collection="c", document="d", text=text(8), title=text(1), score=draw.random())
        for at in range(draw.choice((0, 0, 2)))
    ]
    examples = [Example(user=text(2), assistant=text(2)) for _ in range(draw.choice((0, 0, 2)))]
    return Compress(
        messages=turns,
        passages=passages,
        examples=examples,
        token_budget=draw.choice((100, 400, 1200)),
        context_window=WINDOW,
        max_tokens=draw.choice((1, 400)),
    )


def _called(name: str, argument: str, result: str) -> list[Turn]:
    call = {"id": name, "type": "function", "function": {"name": "f", "arguments": json.dumps({"q": argument})}}
    return [
        Turn(role="assistant", content=None, tool_calls=[call]),
        Turn(role="tool", tool_call_id=name, content=result),
    ]


async def measured(rig: Rig, prompts: int, data: Path) -> Report:
    """Counts so many prompts in both ways."""
    counter, policy = TokenizerFolder(folder(data)).load(SMALL.tokenizer), Settings().policy()
    differences: dict[bool, list[int]] = {True: [], False: []}
    total, nearest = 0, 0.0
    for seed in range(prompts):
        request = drawn(seed)
        made = compress(request, counter, policy)
        asked = Generate(messages=made.messages, max_tokens=1, temperature=0.0)
        found = (await rig.ask(asked, f"acme/{seed}")).prompt_tokens
        differences[any(turn.tool_calls for turn in made.messages)].append(made.tokens_after - found)
        total += found
        nearest = max(nearest, (found + request.max_tokens) / WINDOW)
    every = differences[True] + differences[False]
    return Report(
        prompts=prompts,
        tokens=total,
        equal=every.count(0),
        largest=max(every),
        smallest=min(every),
        largest_without_calls=max(differences[False]),
        nearest=round(nearest, 3),
    )


async def run(prompts: int, data: Path) -> Report:
    """Starts the embedded engine and measures."""
    path = str(folder(data).resolve() / SMALL.engine.path)
    async with running(model_of("llama", path, WINDOW), data, time.perf_counter) as rig:
        return await measured(rig, prompts, data)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--data-folder", type=Path, default=Path(".hasten"), help="where models/ is")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    report = asyncio.run(run(given.prompts, given.data_folder))
    if given.json:
        print(msgspec.json.encode(report).decode())
        return 0
    print(f"{report.prompts} prompts, {report.tokens} tokens by the engine; our count is the same for {report.equal}")
    print(
        f"ours less the engine's: {report.smallest} to {report.largest}; {report.largest_without_calls} at most ",
        end="",
    )
    print(f"without tool calls; prompt and answer took {report.nearest:.0%} of the window at most")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
