"""Draws hit rate against wrong hits, one panel for each set of pairs; needs matplotlib (the extra `dev`)."""

from pathlib import Path
from typing import TYPE_CHECKING

from loadtest.picture import picture

if TYPE_CHECKING:
    from loadtest.cache_quality import Report

WIDEST = 0.2
"""The share of wrong hits up to which the curves are drawn."""


def plot(report: "Report", target: Path) -> None:
    """Writes the picture; raises ImportError without matplotlib."""
    sets = list(dict.fromkeys(curve.data for curve in report.curves)) or ["no data"]
    with picture(target, len(sets), 6.2 * len(sets), 4.6) as panels:
        for panel, name in zip(panels, sets, strict=True):
            for curve in (one for one in report.curves if one.data == name):
                panel.plot(curve.wrong_of_hits, curve.good_hits, label=curve.method, linewidth=1.4)
            for row in (one for one in report.rows if one.data == name and one.shipped):
                panel.plot([row.wrong_of_hits or 0], [row.good_hits], "k*", markersize=12, label="hasten's default")
            for known in (one for one in report.published if one.data == name and one.good_hits is not None):
                first = known.wrong_of_hits == 0.05
                mark = "s" if "best" in known.method else "o"
                panel.plot(
                    [known.wrong_of_hits], [known.good_hits], mark, color="grey", label=known.method if first else None
                )
            panel.set(xlim=(-0.005, WIDEST), ylim=(0, 1), title=name, xlabel="wrong hits / all hits")
            panel.set_ylabel("good hits / answerable pairs")
            panel.legend(fontsize=8, loc="upper left")
