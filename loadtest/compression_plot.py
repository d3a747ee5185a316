"""Draws what is still in the prompt against the share of tokens, one panel for each data set; needs matplotlib."""

from pathlib import Path

from loadtest.compression_report import Report
from loadtest.picture import picture


def plot(report: Report, target: Path) -> None:
    """Writes the picture; raises ImportError without matplotlib."""
    sets = list(dict.fromkeys(row.data for row in report.rows)) or ["no data"]
    with picture(target, len(sets), 4.4 * len(sets), 4.2) as panels:
        for panel, name in zip(panels, sets, strict=True):
            for way in dict.fromkeys(row.way for row in report.rows):
                rows = [row for row in report.rows if row.data == name and row.way == way]
                values = [row.facts if name == "qmsum" else row.whole for row in rows]
                width = 2.2 if way == "hasten" else 1.2
                panel.plot([row.share for row in rows], values, "o-", markersize=3, label=way, linewidth=width)
            panel.set(ylim=(0, 1.02), title=name, xlabel="share of the tokens")
            panel.set_ylabel("needed turns kept" if name == "qmsum" else "questions with all that is needed")
            panel.legend(fontsize=7, loc="lower right")
