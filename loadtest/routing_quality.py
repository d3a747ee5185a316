"""Measures how well the router tells hard questions from easy ones, on public data, beside simple and published ways.

    python -m loadtest.routing_quality --data DIR [--json] [--plot FILE.svg] [--shipped] [--draw N]

DIR holds routellm_evals (per question whether Mixtral 8x7B and GPT-4 were right) and, to see what is taken for a known
kind of text, any of banking77, clinc150, medical_question_pairs, fow_cache, nq_open_oracle, qmsum and xquad*; what is
missing is left out, with the reason. Without `--shipped` everything is fitted anew on DIR and measured on questions
that were kept out; with it the package's artefact is measured as it is, apart on those questions of DIR that it was
fitted on and on the others.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich.console import Console

import hasten.router
from hasten.bench.figures import percentile
from hasten.router import rules
from hasten.router.difficulty import UNKNOWN, Difficulty, estimate
from hasten.router.estimator import Estimator, shipped
from loadtest.asked import Asked, Flags
from loadtest.embedding import Embedding
from loadtest.foreign_texts import FOREIGN
from loadtest.gain import by_question, by_subject, trained
from loadtest.gap import Numbers, curve, recovered
from loadtest.graded import graded, mark, others
from loadtest.pairs import DataError
from loadtest.routing_plot import plot
from loadtest.routing_report import Floor, Kind, Line, Report, Row, show

FLOORS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9)
GAP = "there is no gap between the models"


class Bench:
    """Collects the rows of a report."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.floors: list[Floor] = []
        self.lines: list[Line] = []
        self.skipped: list[str] = []

    def add(self, way: str, kept_out: str, asked: Asked, scores: Any, known: Any = None) -> None:
        """The rows of a way of routing, one for each data set among the questions."""
        for name in sorted({row.data for row in asked.rows}):
            among = asked.among(name)
            self._add(
                name, way, kept_out, np.asarray(scores, dtype=np.float64)[among], asked.gains[among], known, among
            )

    def _add(self, name: str, way: str, out: str, scores: Numbers, gains: Numbers, known: Any, among: Flags) -> None:
        if gains.sum() <= 0:
            self.skipped.append(f"{name}, {way}: {GAP}")
            return
        share = None if known is None else round(float(np.asarray(known)[among].mean()), 3)
        figures = recovered(scores, gains)
        self.rows.append(Row(data=name, way=way, kept_out=out, questions=len(gains), figures=figures, known=share))
        at = np.linspace(0, 1, 101)
        drawn = np.interp(at, *curve(scores, gains)).round(4).tolist()
        self.lines.append(Line(data=name, way=way, shares=at.round(2).tolist(), recovered=drawn))

    def decided(self, way: str, kept_out: str, asked: Asked, found: list[Difficulty]) -> None:
        """The rows of what the router itself says, rules and unknown kinds included."""
        self.add(way, kept_out, asked, [one.score for one in found], [one.known for one in found])

    def floor(self, asked: Asked, found: list[Difficulty]) -> None:
        """What each floor comes to, where every question of this difficulty goes to the strong model."""
        for name in sorted({row.data for row in asked.rows}):
            among = np.flatnonzero(asked.among(name))
            rows = [asked.rows[at] for at in among]
            weak, strong = (float(np.mean([getattr(row, who) for row in rows])) for who in ("weak", "strong"))
            for floor in FLOORS:
                up = np.array([found[at].known and found[at].score >= floor for at in among])
                right = float(np.mean([row.strong if goes else row.weak for row, goes in zip(rows, up, strict=True)]))
                self.floors.append(
                    Floor(
                        data=name,
                        floor=floor,
                        strong_calls=round(float(up.mean()), 3),
                        recovered=round((right - weak) / (strong - weak), 3) if strong != weak else 0.0,
                        right=round(right, 3),
                        right_weak=round(weak, 3),
                        right_strong=round(strong, 3),
                    )
                )


def simple(bench: Bench, asked: Asked) -> None:
    """The ways that need no training."""
    bench.add("random", "nothing fitted", asked, np.zeros(len(asked.rows)))
    bench.add("prompt length", "nothing fitted", asked, [len(row.text) for row in asked.rows])
    bench.add("rules alone", "nothing fitted", asked, [by_rule(row.text) for row in asked.rows])


def by_rule(text: str) -> float:
    """The score of a text of an unknown kind."""
    question = rules.asked(text)
    rule = rules.first(rules.FIRM + rules.HINTS, question)
    return rule.bound(UNKNOWN) if rule else UNKNOWN


def anew(bench: Bench, asked: Asked, draw: int) -> None:
    """Fits on the questions themselves, each time without those that are measured; `draw` divides them otherwise."""
    by = {
        "questions": by_question([row.text for row in asked.rows], draw=draw),
        "subjects": by_subject([row.subject for row in asked.rows]),
        "the data set": np.array([sorted({row.data for row in asked.rows}).index(row.data) for row in asked.rows]),
    }
    for what, folds in by.items():
        if len(np.unique(folds)) < 2:
            bench.skipped.append(f"kept out {what}: there is only one part")
            continue
        gain, plain = np.zeros(len(asked.rows)), np.zeros(len(asked.rows))
        found: list[Difficulty] = [Difficulty(UNKNOWN, {}, "")] * len(asked.rows)
        for part in np.unique(folds):
            out = folds == part
            estimator = Estimator(trained(asked.vectors[~out], asked.values[~out], asked.gains[~out]))
            made = estimator.gains(asked.vectors[out], asked.values[out])
            gain[out], plain[out] = made.gain, made.plain
            for at, one in zip(np.flatnonzero(out), asked.part(out).decided(estimator), strict=True):
                found[at] = one
        some = _many(asked) if what == "subjects" else np.ones(len(asked.rows), dtype=np.bool_)
        kept = f"fitted on others: {what} kept out"
        shown = asked.part(some)
        bench.add("estimate", kept, shown, gain[some])
        bench.add("estimate, form alone", kept, shown, plain[some])
        bench.decided("router's score", kept, shown, [one for one, flag in zip(found, some, strict=True) if flag])
        if what == "questions":
            bench.floor(asked, found)


def _many(asked: Asked) -> Flags:
    """The flags of questions of data sets with more than one subject."""
    subjects = {row.data: {one.subject for one in asked.rows if one.data == row.data} for row in asked.rows}
    return np.array([len(subjects[row.data]) > 1 for row in asked.rows])


def as_shipped(bench: Bench, asked: Asked) -> str:
    """Measures the package's artefact on what it has not seen; returns what it was fitted on."""
    told = json.loads((Path(hasten.router.__file__).parent / "difficulty.json").read_text())
    seen = set(told["questions"])
    new = np.array([mark(row.text) not in seen for row in asked.rows])
    if not new.any():
        bench.skipped.append(
            "every question of DIR was fitted on: the rows show how the artefact fits, not how good it is"
        )
    for flags, kept in ((new, "shipped: not fitted on these"), (~new, "shipped: FITTED ON THESE")):
        if not flags.any():
            continue
        part = asked.part(flags)
        made = shipped().gains(part.vectors, part.values)
        found = part.decided(shipped())
        bench.add("estimate", kept, part, made.gain)
        bench.add("estimate, form alone", kept, part, made.plain)
        bench.decided("router's score", kept, part, found)
        if kept.endswith("not fitted on these") or not new.any():
            bench.floor(part, found)
        if new.any():
            simple(bench, part)
    return f"{told['fitted_on']}, of which {int((~new).sum())} of the {len(new)} questions in DIR"


def kinds(folder: Path, embedding: Embedding) -> tuple[list[Kind], list[str]]:
    """What the shipped estimate and the rules make of other texts."""
    texts, skipped = others(folder)
    texts["not English (sentences of this project)"] = list(FOREIGN.values())
    made = []
    for name, some in texts.items():
        vectors = embedding.of(some, name)
        found = [estimate(text, vectors[text].astype("<f4").tobytes()) for text in some]
        made.append(
            Kind(
                name=name,
                texts=len(some),
                familiar=round(float(np.mean(["gain" in one.features for one in found])), 3),
                by_rule=round(float(np.mean([one.known and "gain" not in one.features for one in found])), 3),
            )
        )
    return made, skipped


def timed(asked: Asked) -> tuple[float, float]:
    """p50 and p95 in microseconds of processor time for one estimate, features and rules included."""
    took = []
    for row, vector in list(zip(asked.rows, asked.vectors, strict=True))[:: max(1, len(asked.rows) // 1000)]:
        whole = vector.astype("<f4").tobytes()
        since = time.thread_time_ns()
        estimate(row.text, whole)
        took.append((time.thread_time_ns() - since) / 1000)
    return round(percentile(took[10:] or took, 0.5)), round(percentile(took[10:] or took, 0.95))


def measured(folder: Path, embedding: Embedding, use_shipped: bool, draw: int = 0) -> Report:
    """Everything that the data in `folder` allows; raises DataError without graded questions."""
    asked = Asked.of([row for rows in graded(folder).values() for row in rows], embedding)
    bench = Bench()
    simple(bench, asked)
    if use_shipped:
        fitted_on = as_shipped(bench, asked)
    else:
        anew(bench, asked, draw)
        fitted_on = "the other questions of DIR, as each row says"
    found, skipped = kinds(folder, embedding)
    return Report(
        fitted_on=fitted_on,
        rows=bench.rows,
        floors=bench.floors,
        kinds=found,
        skipped=bench.skipped + skipped,
        estimate_us=timed(asked),
        lines=bench.lines,
    )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--shipped", action="store_true", help="measure the package's artefact instead of fitting anew")
    parser.add_argument("--draw", type=int, default=0, help="another division of the questions into five parts")
    given = parser.parse_args()
    try:
        report = measured(given.data, Embedding(), given.shipped, given.draw)
    except DataError as error:
        print(f"routing_quality: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(msgspec.json.encode(report).decode())
    else:
        show(Console(width=150), report)
    if given.plot:
        plot(report, given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
