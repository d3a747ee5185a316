"""The report of `loadtest.routing_quality`, and its tables for people."""

import msgspec
from rich.console import Console
from rich.table import Table

from loadtest.gap import Recovered

PUBLISHED = {
    ("mmlu", "best published router"): 0.603,
    ("mmlu", "prompt length, published"): 0.588,
    ("gsm8k", "best published router"): 0.622,
    ("gsm8k", "prompt length, published"): 0.598,
}
"""APGR from RouteLLM's evaluation, on the whole sets; DIR may hold a part of them."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One way of routing on one data set; `known` is the share of questions whose difficulty was said to be known."""

    data: str
    way: str
    kept_out: str
    questions: int
    figures: Recovered
    known: float | None = None


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """What a floor of the settings comes to: the share of strong calls, the gap recovered, and the share right."""

    data: str
    floor: float
    strong_calls: float
    recovered: float
    right: float
    right_weak: float
    right_strong: float


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """Another kind of text: the share taken for a known kind by the estimate, and decided by a rule."""

    name: str
    texts: int
    familiar: float
    by_rule: float


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A curve for the plot: shares of strong calls, gap recovered."""

    data: str
    way: str
    shares: list[float]
    recovered: list[float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What is printed. `estimate_us` are p50 and p95 of one estimate given the vector, in microseconds."""

    fitted_on: str
    rows: list[Row]
    floors: list[Floor]
    kinds: list[Kind]
    skipped: list[str]
    estimate_us: tuple[float, float]
    lines: list[Line]


def share(value: float | None) -> str:
    """A share in per cent."""
    return "-" if value is None else f"{value:.1%}"


def show(console: Console, report: Report) -> None:
    """The tables for people."""
    console.print(
        f"fitted on: {report.fitted_on}; one estimate takes {report.estimate_us[0]} us (p95 {report.estimate_us[1]})"
    )
    table = Table("data", "way", "APGR (95%)", "calls for 50%", "calls for 80%", "known", "kept out", box=None)
    for row in report.rows:
        one = row.figures
        span = f"{one.apgr:.3f} ({one.apgr_95[0]:.3f} to {one.apgr_95[1]:.3f})"
        data = f"{row.data} ({row.questions})"
        table.add_row(data, row.way, span, share(one.calls_50), share(one.calls_80), share(row.known), row.kept_out)
    for (data, way), apgr in PUBLISHED.items():
        table.add_row(data, way, f"{apgr:.3f}", "-", "-", "-", "published, whole set")
    console.print(table)
    table = Table("data", "floor from", "strong calls", "gap recovered", "right", "weak / strong alone", box=None)
    for at in report.floors:
        alone = f"{share(at.right_weak)} / {share(at.right_strong)}"
        table.add_row(at.data, f"{at.floor}", share(at.strong_calls), share(at.recovered), share(at.right), alone)
    console.print(table)
    table = Table("other texts", "number", "taken for a known kind", "decided by a rule", box=None)
    for kind in report.kinds:
        table.add_row(kind.name, f"{kind.texts}", share(kind.familiar), share(kind.by_rule))
    console.print(table)
    for reason in report.skipped:
        console.print(f"left out: {reason}", markup=False)
