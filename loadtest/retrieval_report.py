"""The report of `loadtest.retrieval_quality`, and its tables for people."""

import msgspec
from rich.console import Console
from rich.table import Table

from loadtest.retrieval_metric import Figures


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One way of searching on the kept-out questions of one set.

    `gain` is the difference of nDCG@10 to `against` (by vectors alone, or what a reranker was given), with its 95%
    interval by a paired bootstrap. `ms` are p50 and p95 of one search, without the embedding of the question.
    """

    data: str
    way: str
    questions: int
    figures: Figures
    ms: tuple[float, float] | None = None
    against: str = ""
    gain: tuple[float, float, float] | None = None


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """nDCG@10 on the other half of a set's questions, by what was tried."""

    data: str
    questions: int
    lexical: dict[str, float]
    parent: dict[str, float]


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of words with the best mean on the other sets, and what it brings on this one, where it is unseen."""

    data: str
    weight: float
    ndcg_10: float
    better_leg: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was measured; `skipped` says what was not and why, `chunks` how large the sets are."""

    model: str
    chunks: dict[str, int] = {}
    rows: list[Row] = []
    trials: list[Trial] = []
    chosen: list[Chosen] = []
    skipped: list[str] = []


def show(console: Console, report: Report) -> None:
    """The tables for people."""
    columns = ("data", "way", "R@1", "R@5", "R@10", "nDCG@10", "MRR", "4,000 chars: R / P / IoU", "gain (95%)", "ms")
    table = Table(*columns, box=None)
    for row in report.rows:
        one = row.figures
        plain = [f"{value:.3f}" for value in (one.recall_1, one.recall_5, one.recall_10, one.ndcg_10, one.mrr)]
        spans = (one.chars_recall, one.chars_precision, one.chars_iou)
        of_spans = " / ".join(f"{value:.3f}" for value in spans if value is not None) or "-"
        gain = "-" if row.gain is None else "{:+.3f} ({:+.3f} to {:+.3f})".format(*row.gain)
        ms = "-" if row.ms is None else f"{row.ms[0]:.1f} / {row.ms[1]:.1f}"
        table.add_row(f"{row.data} ({row.questions})", row.way, *plain, of_spans, gain, ms)
    console.print(table)
    for kind in ("lexical", "parent"):
        for trial in report.trials:
            tried = "  ".join(f"{weight}: {value:.3f}" for weight, value in getattr(trial, kind).items())
            console.print(f"{kind} weight, {trial.data} ({trial.questions}, the other half): {tried}", markup=False)
    for unseen in report.chosen:
        console.print(
            f"{unseen.data}: the other sets choose {unseen.weight}: nDCG@10 {unseen.ndcg_10:.3f}, "
            f"better leg {unseen.better_leg:.3f}",
            markup=False,
        )
    for reason in report.skipped:
        console.print(f"left out: {reason}", markup=False)
