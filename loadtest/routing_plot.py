"""Draws the gap recovered against the share of strong calls, one panel for each data set; needs matplotlib (`dev`)."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadtest.routing_quality import Report


def plot(report: "Report", target: Path) -> None:
    """Writes the picture; raises ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "hasten"
    sets = list(dict.fromkeys(line.data for line in report.lines)) or ["no data"]
    figure, panels = pyplot.subplots(1, len(sets), figsize=(6.4 * len(sets), 5), squeeze=False)
    kept = [row.kept_out for row in report.rows]
    for panel, name in zip(panels[0], sets, strict=True):
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
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None} if target.suffix == ".svg" else None)
    pyplot.close(figure)
