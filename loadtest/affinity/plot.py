"""Draws the times to the first token, and how they and the hit rate change with the load; needs matplotlib."""

from pathlib import Path

from loadtest.affinity.report import LOADS, Report
from loadtest.picture import picture


def plot(report: Report, target: Path) -> None:
    """Writes the picture; raises ImportError without matplotlib."""
    with picture(target, 2, 11.6, 4.4) as (times, hits):
        for name, curve in report.curves.items():
            width = 2.4 if name == "hasten" else 1.2
            times.plot([ms / 1000 for ms in curve], range(101), label=name, linewidth=width)
            rows = [row for row in report.compared if row.case == name]
            hits.plot([row.load for row in rows], [row.hit_rate for row in rows], "o-", label=name, linewidth=width)
        times.set(xscale="log", xlim=(0.05, 60), ylim=(0, 100))
        times.set(xlabel=f"time to the first token (s) at load {LOADS[-1]:g}", ylabel="% of requests")
        times.legend(fontsize=8, loc="upper left")
        hits.axhline(report.ceiling, color="grey", linestyle=":", label="one cache without bounds")
        hits.set(ylim=(0, 0.4), xticks=LOADS, xlabel="load", ylabel="prompt blocks found in the prefix cache")
        hits.legend(fontsize=8, loc="lower center", ncols=2)
