"""Draws the gap recovered against the share of strong calls, one panel for each data set; needs matplotlib (`dev`)."""

from pathlib import Path

from loadtest.picture import picture
from loadtest.routing_report import Report


def plot(report: Report, target: Path) -> None:
    """Writes the picture; raises ImportError without matplotlib."""
    sets = list(dict.fromkeys(line.data for line in report.lines)) or ["no data"]
    kept = [row.kept_out for row in report.rows]
    with picture(target, len(sets), 6.4 * len(sets), 5) as panels:
        for panel, name in zip(panels, sets, strict=True):
            for line, out in zip(report.lines, kept, strict=True):
                if line.data != name or line.way in ("estimate, form alone", "rules alone"):
                    continue
                plain = line.way in ("random", "prompt length")
                label = line.way if plain else f"{line.way} ({out.removeprefix('fitted on others: ')})"
                panel.plot(
                    line.shares,
                    line.recovered,
                    label=label,
                    linewidth=1.0 if plain else 1.5,
                    linestyle=":" if plain else "--" if line.way == "router's score" else "-",
                    color="grey" if line.way == "random" else None,
                )
            panel.set(xlim=(0, 1), title=name, xlabel="share of calls to the strong model", ylabel="gap recovered")
            panel.legend(fontsize=7, loc="lower right")
