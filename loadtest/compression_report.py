"""The report on compression, as a table for people."""

import msgspec
from rich.console import Console
from rich.table import Table


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One way at one share of the tokens.

    `whole` is the share of questions of which everything needed is still in the prompt, `facts` the mean share of what
    is needed; both among what the passages held. `saved` is the share of tokens that were saved. `gain` is how much
    more of `whole` than truncation by rank keeps, with a 95% interval from resampling the questions.
    """

    data: str
    way: str
    share: float
    questions: int
    whole: float
    facts: float
    saved: float
    gain: tuple[float, float, float] | None = None


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A figure reached before on all questions of the same data (stated by others, not measured here)."""

    data: str
    way: str
    share: float
    whole: float


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds of processor time of one thread for a request, p50 and p95: texts new to the counter, and known."""

    data: str
    tokens: float
    new_ms: tuple[float, float]
    known_ms: tuple[float, float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was measured."""

    half: str
    rows: list[Row]
    speeds: list[Speed]
    published: list[Published]
    skipped: list[str]


_SHARES = (0.2, 0.3, 0.5)


def _figures(data: str, way: str, values: tuple[float, ...]) -> list[Published]:
    return [
        Published(data=data, way=way, share=share, whole=whole) for share, whole in zip(_SHARES, values, strict=True)
    ]


PUBLISHED = [
    *_figures("nq", "truncation, before", (0.957, 0.982, 0.987)),
    *_figures("nq", "prototype, before", (0.94, 0.98, 0.99)),
    *_figures("hotpot100", "truncation, before", (0.41, 0.53, 0.66)),
    *_figures("hotpot100", "prototype, before", (0.57, 0.70, 0.79)),
]


def show(console: Console, report: Report) -> None:
    """The tables."""
    console.print(f"questions: {report.half}")
    table = Table("data", "way", "share of tokens", "all kept", "facts kept", "saved", "against truncation", box=None)
    for row in report.rows:
        gain = "" if row.gain is None else f"{row.gain[0]:+.3f} ({row.gain[1]:+.3f} to {row.gain[2]:+.3f})"
        figures = (f"{row.whole:.3f}", f"{row.facts:.3f}", f"{row.saved:.1%}", gain)
        style = "bold" if row.way == "hasten" else None
        table.add_row(f"{row.data} ({row.questions})", row.way, f"{row.share:.0%}", *figures, style=style)
    for known in report.published:
        table.add_row(known.data, known.way, f"{known.share:.0%}", f"{known.whole:.3f}", "", "", "", style="dim")
    console.print(table)
    for speed in report.speeds:
        new, old = speed.new_ms, speed.known_ms
        console.print(
            f"{speed.data}: {speed.tokens:.0f} tokens before, {new[0]:.1f} / {new[1]:.1f} ms (p50 / p95) when no "
            f"sentence has been counted before, {old[0]:.1f} / {old[1]:.1f} ms when all have"
        )
    for reason in report.skipped:
        console.print(f"left out: {reason}")
