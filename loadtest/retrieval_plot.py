"""Draws nDCG@10 by the weight of words, and of each way of searching; needs matplotlib (the extra `dev`)."""

from pathlib import Path

from loadtest.picture import picture
from loadtest.retrieval_report import Report


def plot(report: Report, target: Path) -> None:
    """Writes the picture; raises ImportError without matplotlib."""
    with picture(target, 2, 13, 4.6) as (trials, ways):
        for trial in report.trials:
            trials.plot(
                [float(weight) for weight in trial.lexical], list(trial.lexical.values()), "o-", label=trial.data
            )
        trials.set(xlabel="weight of words", ylabel="nDCG@10, the half for choosing", ylim=(0, 1))
        trials.legend(fontsize=8, loc="lower left")
        sets = list(dict.fromkeys(row.data for row in report.rows))
        for way in dict.fromkeys(row.way for row in report.rows):
            rows = [row for row in report.rows if row.way == way]
            ways.plot([sets.index(row.data) for row in rows], [row.figures.ndcg_10 for row in rows], "o", label=way)
        ways.set(ylabel="nDCG@10, the half that is measured", ylim=(0, 1))
        ways.set_xticks(range(len(sets)), sets, rotation=15, fontsize=8)
        ways.legend(fontsize=8, loc="lower left")
