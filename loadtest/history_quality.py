"""What is left of a long conversation: the turns that the answer is in, and the prompt's beginning from turn to turn.

    python -m loadtest.history_quality --data DIR [--json] [--half N]

Conversations are cut to the same tokens in each way, those of the embedded default. `gold` is the share of
the tokens of the turns that hold the answer (QMSum's own spans; in fow_cache's long chats those that tell two chats
apart) whose sentences are in the prompt. `repeated` is the share of prompt tokens that repeat the beginning of the
previous prompt, in whole messages, over conversations of 30 rounds.
"""

import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from hasten.compressor.domain import compress
from hasten.compressor.sentences import split
from hasten.compressor.settings import Settings
from hasten.compressor.tokenizer_folder import TokenizerFolder
from hasten.compressor.tokens import TokenCounter
from hasten.messages.chat import Turn
from hasten.messages.compress import Compress
from hasten.models import SMALL
from hasten.weights import folder
from loadtest.conversations import Asked, chats, meetings
from loadtest.halved import command
from loadtest.pairs import DataError

BUDGETS = {"qmsum": (500, 1000, 2000, 4000), "fow_cache conv-long": (200, 400, 800)}
ROUNDS, ROUNDS_BUDGET, TALKS = 30, 1000, 8
WINDOW = 200_000
_TELLING = re.compile(r"\d|[£$€]|(?<=[a-z,;] )[A-Z][a-z]+|\b(?:decid|agree|cancel|order|book|must|deadline)\w*")

Cut = Callable[[Sequence[Turn], int], list[Turn]]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One way of cutting at one budget, over so many questions."""

    data: str
    way: str
    budget: int
    questions: int
    gold: float
    tokens: float
    p50_ms: float
    p95_ms: float


class Prefix(msgspec.Struct, frozen=True, kw_only=True):
    """One way over conversations of 30 rounds: tokens that repeat the previous prompt's beginning, and that do not."""

    way: str
    repeated: float
    new_per_turn: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All rows; `skipped` says what was not there."""

    rows: list[Row] = []
    prefixes: list[Prefix] = []
    skipped: list[str] = []


def ways(counter: TokenCounter) -> dict[str, Cut]:
    """The ways to cut a conversation to a budget."""

    def hasten(**options: float) -> Cut:
        policy = Settings(**options).policy()  # type: ignore[arg-type]

        def cut(turns: Sequence[Turn], budget: int) -> list[Turn]:
            request = Compress(messages=list(turns), token_budget=budget, context_window=WINDOW)
            return compress(request, counter, policy).messages

        return cut

    return {
        "newest turns": lambda turns, budget: newest(turns, budget, counter),
        "telling sentences": lambda turns, budget: telling(turns, budget, counter),
        "without recall": hasten(recall_share=0.0),
        "hasten": hasten(),
    }


def newest(turns: Sequence[Turn], budget: int, counter: TokenCounter) -> list[Turn]:
    """The last turns that fit: what most do."""
    room = budget - counter.prompt(turns[-1:])
    sizes = counter.counts([turn.text for turn in turns[:-1]])
    first = len(turns) - 1
    while first and (room := room - sizes[first - 1] - counter.per_turn) >= 0:
        first -= 1
    return list(turns[first:])


def telling(turns: Sequence[Turn], budget: int, counter: TokenCounter) -> list[Turn]:
    """The last turns in seven tenths of the budget, and of those before them the sentences with most figures, names and
    decisions in one turn, whatever the question: a summary that stays the same."""
    kept = newest(turns, budget * 7 // 10, counter)
    units = [unit.text for turn in turns[: len(turns) - len(kept)] for unit in split(turn.text)]
    sizes = counter.counts(units)
    room = budget - counter.prompt(kept) - counter.per_turn
    worths = [len(_TELLING.findall(unit)) / max(6, size) ** 0.7 for unit, size in zip(units, sizes, strict=True)]
    chosen = []
    for at in sorted(range(len(units)), key=lambda at: (-worths[at], at)):
        if worths[at] > 0 and sizes[at] + 1 <= room:
            chosen.append(at)
            room -= sizes[at] + 1
    summary = Turn(role="user", content="\n".join(units[at] for at in sorted(chosen)))
    return [summary, *kept] if chosen else kept


def gold_left(asked: Asked, messages: Sequence[Turn], counter: TokenCounter) -> float:
    """The share of the tokens of the turns that are needed whose sentences are in the prompt."""
    shown = "\n".join(turn.text for turn in messages)
    units = [unit.text for at in asked.gold for unit in split(asked.turns[at].text)]
    sizes = counter.counts(units)
    return sum(size for unit, size in zip(units, sizes, strict=True) if unit in shown) / max(1, sum(sizes))


def measured(data: str, asked: Sequence[Asked], counter: TokenCounter) -> list[Row]:
    """Every way at every budget."""
    rows = []
    for budget in BUDGETS[data]:
        for way, cut in ways(counter).items():
            gold, tokens, took = [], [], []
            for one in asked:
                began = time.perf_counter()
                messages = cut(one.turns, budget)
                took.append(1000 * (time.perf_counter() - began))
                gold.append(gold_left(one, messages, counter))
                tokens.append(counter.prompt(messages))
            took.sort()
            rows.append(
                Row(
                    data=data,
                    way=way,
                    budget=budget,
                    questions=len(asked),
                    gold=round(sum(gold) / len(gold), 3),
                    tokens=round(sum(tokens) / len(tokens)),
                    p50_ms=round(took[len(took) // 2], 1),
                    p95_ms=round(took[len(took) * 95 // 100], 1),
                )
            )
    return rows


def prefixes(talks: Sequence[Asked], counter: TokenCounter) -> list[Prefix]:
    """How much of each prompt repeats the one before, when a conversation is asked at each of its rounds."""
    found = []
    for way, cut in ways(counter).items():
        repeated = total = 0
        for talk in talks:
            before: list[Turn] = []
            for rounds in range(ROUNDS):
                messages = cut(talk.turns[: 2 * rounds + 1], ROUNDS_BUDGET)
                same = next((at for at, (a, b) in enumerate(zip(before, messages)) if a != b), len(before))  # noqa: B905
                repeated += counter.prompt(messages[:same], opens_answer=False) if same else 0
                total += counter.prompt(messages)
                before = messages
        new = (total - repeated) / (ROUNDS * len(talks))
        found.append(Prefix(way=way, repeated=round(repeated / total, 3), new_per_turn=round(new)))
    return found


def evaluated(data: Path, half: int, models: Path) -> Report:
    """Everything that the data allows, on one half of the meetings and chats (0 fits, 1 reports)."""
    counter = TokenizerFolder(folder(models)).load(SMALL.tokenizer)
    rows: list[Row] = []
    skipped, talks = [], []
    for name, read in (("qmsum", meetings), ("fow_cache conv-long", chats)):
        try:
            asked = [one for one in read(data) if one.group % 2 == half]
        except DataError as error:
            skipped.append(str(error))
            continue
        rows += measured(name, asked, counter)
        if name == "qmsum":
            talks = list({one.group: one for one in asked}.values())[:TALKS]
    return Report(rows=rows, prefixes=prefixes(talks, counter) if talks else [], skipped=skipped)


def show(report: Report) -> None:
    """Prints the tables."""
    console = Console()
    table = Table("data", "way", "budget", "gold", "tokens", "p50 / p95 ms")
    for row in report.rows:
        table.add_row(
            row.data, row.way, str(row.budget), f"{row.gold:.3f}", f"{row.tokens:.0f}", f"{row.p50_ms} / {row.p95_ms}"
        )
    console.print(table)
    table = Table("way", "repeated", "new tokens per turn")
    for one in report.prefixes:
        table.add_row(one.way, f"{one.repeated:.3f}", f"{one.new_per_turn:.0f}")
    console.print(table)
    for line in report.skipped:
        console.print(f"skipped: {line}")


def main() -> int:
    """The command."""
    return command(__doc__, "parameters were", evaluated, show)


if __name__ == "__main__":
    sys.exit(main())
