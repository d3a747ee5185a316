"""Measures the cache's judgement on public data: hit rate against wrong hits, for plain cosine and for hasten.

    python -m loadtest.cache_quality [--data DIR] [--json] [--plot FILE.svg]

DIR holds any of fow_cache, medical_question_pairs, banking77 and clinc150, in the form in which they are published;
what is missing is left out, with the reason. The vectors come from the embedder's own code, in this process.
"""

import argparse
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from hasten.cache.guards import Reading
from hasten.cache.judgement import judged as judgement
from hasten.cache.settings import Settings
from hasten.cache.verifier import Weights, logistic, shipped
from hasten.fingerprint import fingerprint
from hasten.messages.chat import ChatRequest, Turn
from loadtest.curve import counted, points
from loadtest.embedding import Embedding
from loadtest.pairs import DataError, Pair, Talks, banking77, clinc150, fold, fow_cache, mark, medical, talks
from loadtest.published import PUBLISHED, Published
from loadtest.quality_row import Row, along, fixed, row
from loadtest.streams import as_cache, by_similarity, sample, stream
from loadtest.verifying import FOLDS, REFUSED, judged, nested, scores

PLAIN = (0.8, 0.85, 0.9, 0.95)
READERS = {"fow_cache": fow_cache, "medical_question_pairs": medical}
STREAMS = {"banking77": banking77, "clinc150": clinc150}
TALKS = ("conv-parts", "conv-long")
WARM = 20


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """The points of one method on one data set, for the plot: wrong of hits, good hits."""

    data: str
    method: str
    wrong_of_hits: list[float]
    good_hits: list[float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What is printed."""

    embedder: str
    threshold: float
    embed_ms: tuple[float, float]
    rows: list[Row]
    published: list[Published]
    skipped: list[str]
    curves: list[Curve]


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """p50 and p95 in milliseconds."""
    low, high = np.percentile(seconds, [50, 95])
    return round(float(low) * 1000, 3), round(float(high) * 1000, 3)


def timed(pairs: list[Pair], weights: Weights, settings: Settings) -> tuple[float, float]:
    """How long a judgement takes: reading a stored question and comparing it with one that has been read."""
    took = []
    for pair in pairs[: WARM + 500]:
        asked = Reading(pair.a)
        since = time.perf_counter()
        judgement(asked, Reading(pair.b), 0.9, settings.threshold, weights)
        took.append(time.perf_counter() - since)
    return percentiles(took[min(WARM, len(took) - 1) :])


def timed_embedding(embedding: Embedding, texts: list[str]) -> tuple[float, float]:
    """How long one question takes the embedder, alone on this machine."""
    took = []
    for text in texts[:100]:
        since = time.perf_counter()
        embedding.encode([text])
        took.append(time.perf_counter() - since)
    return percentiles(took)


def of_pairs(name: str, pairs: list[Pair], embedding: Embedding, settings: Settings) -> tuple[list[Row], list[Curve]]:
    """The rows and curves of a set of pairs."""
    artefact = shipped()
    vectors = embedding.of([text for pair in pairs for text in (pair.a, pair.b)], name)
    cases = judged(pairs, vectors, settings)
    same = np.array([pair.same for pair in pairs])
    folds = np.array([fold(pair.a, FOLDS) for pair in pairs])
    similar = np.array([case.similarity for case in cases])
    ours = scores(cases, artefact.weights)
    ms, none = timed(pairs, artefact.weights, settings), (0.0, 0.0)
    trained = set(msgspec.convert(artefact.report.get("pairs", []), list[str]))
    seen = sum(mark(pair) in trained for pair in pairs)
    kept = f"fitted on {seen} of {len(pairs)} pairs" if seen else "held out: not fitted on any"
    served = counted(np.array([odds > REFUSED and logistic(odds) >= settings.threshold for odds in ours]), same)
    rows = [
        row(name, "hasten as shipped", "default", kept, served, ms=ms, threshold=settings.threshold, shipped=True),
        *along(name, "hasten's curve", ours, same, folds, REFUSED, kept_out=kept, ms=ms),
    ]
    bare = np.array([artefact.weights.log_odds(case.signs, case.similarity) for case in cases])
    curves = {
        "cosine": (similar, -1.0),
        "hasten as shipped": (ours, REFUSED),
        "confidence without guards": (bare, -np.inf),
    }
    if any(pair.category for pair in pairs):
        out = nested(cases)
        rows += along(name, "hasten, refitted", out, same, folds, REFUSED, kept_out="held out: weights", ms=ms)
        curves["hasten, weights and pairs apart"] = (out, REFUSED)
    rows += along(name, "confidence without guards", bare, same, folds, -np.inf, kept_out=kept, ms=ms)
    rows += along(name, "cosine", similar, same, folds, -1.0, kept_out="nothing fitted", ms=none)
    rows += fixed(name, similar, same, PLAIN, none)
    return rows, [curve(name, method, found, same, least) for method, (found, least) in curves.items()]


def curve(data: str, method: str, found: Any, same: Any, least: float) -> Curve:
    """The curve of a score."""
    made = points(found, same, least)
    return Curve(
        data=data,
        method=method,
        wrong_of_hits=[round(point.wrong_rate, 4) for point in made],
        good_hits=[round(point.hit_rate, 4) for point in made],
    )


def of_stream(name: str, folder: Path, embedding: Embedding, settings: Settings) -> list[Row]:
    """The rows of a set of labelled questions."""
    lines = sample(STREAMS[name](folder))
    vectors = embedding.of([line.text for line in lines], name)
    weights = shipped().weights
    ours = stream(lines, vectors, as_cache(lines, settings, weights), settings.candidates)
    pairs = [Pair(a=one.text, b=other.text, same=False) for one, other in pairwise(lines)]
    ms, kept = timed(pairs, weights, settings), "held out: not fitted on any"
    made = [
        row(name, "hasten as shipped", "default", kept, ours, ms=ms, threshold=settings.threshold, shipped=True),
    ]
    for threshold in PLAIN:
        plain = stream(lines, vectors, by_similarity(threshold), settings.candidates)
        made.append(row(name, "cosine", f"≥ {threshold:.2f}", "nothing fitted", plain, ms=(0.0, 0.0)))
    return made


def of_talks(part: str, cases: list[Talks], embedding: Embedding, settings: Settings) -> list[Row]:
    """The rows of conversations: by meaning only what is one turn, else the whole history must be the same."""
    same = np.array([case.same for case in cases])
    weights = shipped().weights
    texts = [turns[-1].content for case in cases for turns in (case.a, case.b)]
    vectors = embedding.of(texts, part)
    ours, plain = [], []
    for case in cases:
        asked, stored = (fingerprint(_request(turns)) for turns in (case.a, case.b))
        similarity = float(vectors[case.a[-1].content] @ vectors[case.b[-1].content])
        meant = asked.single_turn and stored.single_turn and asked.partition == stored.partition
        left, right = Reading(asked.text), Reading(stored.text)
        found = judgement(left, right, similarity, settings.threshold, weights).reason is None if meant else False
        ours.append(asked.key == stored.key or found)
        plain.append(similarity >= PLAIN[1])
    name = f"conversations, {part}"
    return [
        row(name, "hasten as shipped", "default", "held out: a rule", counted(np.array(ours), same), shipped=True),
        row(name, "cosine of the last message", f"≥ {PLAIN[1]:.2f}", "nothing fitted", counted(np.array(plain), same)),
    ]


def _request(turns: list[Any]) -> ChatRequest:
    return ChatRequest(messages=[Turn(role=turn.role, content=turn.content) for turn in turns])


def measured(folder: Path, embedding: Embedding) -> Report:
    """Everything that the data in `folder` allows."""
    settings = Settings()
    rows: list[Row] = []
    curves: list[Curve] = []
    skipped: list[str] = []

    def attempt(name: str, work: Any) -> None:
        try:
            found, drawn = work()
        except (DataError, OSError, ValueError, msgspec.MsgspecError) as error:
            skipped.append(f"{name}: {error}")
            return
        rows.extend(found)
        curves.extend(drawn)

    for name, read in READERS.items():
        attempt(name, lambda name=name, read=read: of_pairs(name, read(folder), embedding, settings))
    for name in STREAMS:
        attempt(name, lambda name=name: (of_stream(name, folder, embedding, settings), []))
    for part in TALKS:
        attempt(part, lambda part=part: (of_talks(part, talks(folder, part), embedding, settings), []))
    return Report(
        embedder=embedding.name,
        threshold=settings.threshold,
        embed_ms=timed_embedding(embedding, [f"How do I change the address of account {n}?" for n in range(100)]),
        rows=rows,
        published=list(PUBLISHED),
        skipped=skipped,
        curves=curves,
    )


def share(value: float | None) -> str:
    """A share in per cent."""
    return "-" if value is None else f"{value:.1%}"


def show(console: Console, report: Report) -> None:
    """The table for people."""
    console.print(
        f"shipped threshold {report.threshold} (confidence), vectors of {report.embedder}; embedding a question takes "
        f"{report.embed_ms[0]} ms (p95 {report.embed_ms[1]}), for every method alike"
    )
    heads = ("data", "method", "point", "good hits", "wrong of hits", "traps served", "ms p50 / p95", "kept out")
    table = Table(*heads, box=None)
    for one in report.rows:
        counts = "" if one.right is None else f" ({one.right}/{one.answerable})"
        wrong = "" if one.wrong is None else f" ({one.wrong}/{(one.right or 0) + one.wrong})"
        traps = "" if one.traps is None else f" ({one.wrong}/{one.traps})"
        ms = "-" if one.ms is None else f"{one.ms[0]:.2f} / {one.ms[1]:.2f}"
        cells = (share(one.good_hits) + counts, share(one.wrong_of_hits) + wrong, share(one.traps_served) + traps)
        style = "bold" if one.shipped else None
        table.add_row(one.data, one.method, one.point, *cells, ms, one.kept_out, style=style)
    for known in report.published:
        point = "" if known.wrong_of_hits is None else f"≤{known.wrong_of_hits:.0%}"
        cells = (share(known.good_hits), share(known.wrong_of_hits), share(known.traps_served))
        table.add_row(known.data, known.method, point, *cells, "-", "as published, whole data", style="dim")
    console.print(table)
    console.print("good hits / answerable pairs · wrong hits / all hits · traps served / traps")
    for reason in report.skipped:
        console.print(f"left out: {reason}")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="the folder of the data sets")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the curves there, as SVG or PNG")
    asked = parser.parse_args()
    report = measured(asked.data, Embedding())
    if asked.plot:
        from loadtest.quality_plot import plot

        plot(report, asked.plot)
    if asked.json:
        print(json.dumps(msgspec.to_builtins(report), ensure_ascii=False))
    else:
        show(Console(highlight=False, width=max(170, Console().width)), report)
    if not report.rows:
        print(
            f"cache_quality: {asked.data} holds none of the data sets; name their folder with --data", file=sys.stderr
        )
    return 0 if report.rows else 2


if __name__ == "__main__":
    sys.exit(main())
