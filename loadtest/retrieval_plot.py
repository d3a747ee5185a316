"""Draws nDCG@10 by the weight of words, and of each way of searching; needs matplotlib (the extra `dev`)."""

from pathlib import Path

from loadtest.picture import picture
from loadtest.retrieval_report import Report

LEAST, BESIDE = 0.2, 0.1
"""Where the axis begins, and how far the ways of one set are apart."""


def plot(report: Report, target: Path) -> None:
    """Writes the picture; raises ImportError without matplotlib."""
    with picture(target, 2, 13, 4.6) as (trials, ways):
        for trial in report.trials:
            trials.plot(
                [float(weight) for weight in trial.lexical], list(trial.lexical.values()), "o-", label=trial.data
            )
        trials.set(xlabel="weight of words", ylabel="nDCG@10, the half for choosing", ylim=(LEAST, 1.01))
        trials.legend(fontsize=8, loc="lower left")
        sets = list(dict.fromkeys(row.data for row in report.rows))
        for beside, way in enumerate(dict.fromkeys(row.way for row in report.rows)):
            rows = [row for row in report.rows if row.way == way]
            at = [sets.index(row.data) + BESIDE * beside for row in rows]
            ways.plot(at, [row.figures.ndcg_10 for row in rows], "o", label=way)
        ways.set(ylabel="nDCG@10, the half that is measured", ylim=(LEAST, 1.01))
        ways.set_xticks(range(len(sets)), sets, rotation=15, fontsize=8)
        ways.legend(fontsize=8, loc="lower left")
