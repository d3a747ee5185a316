"""A result as a page, and as lines for a terminal."""

from typing import Any

import msgspec

from hasten.bench.figures import percentile
from loadtest.html_report import Part, Table, Words, page, shown
from loadtest.load_plot import cost_plot, curve_plot, distribution_plot, waterfall_plot
from loadtest.result import Result
from loadtest.sample import Sample
from loadtest.search import Found, Point
from loadtest.summary import Group, Spread, Summary
from loadtest.toml_text import written
from loadtest.waterfall import waterfall

_SPREAD = ("n", "mean", "P50", "P95", "P99", "most")


def _spread(name: str, one: Spread) -> list[Any]:
    return [name, one.n, one.mean, one.p50, one.p95, one.p99, one.most]


def _times(found: Summary) -> Table:
    rows = [
        _spread("first token (TTFT)", found.ttft_ms),
        _spread("first token less the worker's time", found.added_ms),
        _spread("each later token (TPOT)", found.tpot_ms),
        _spread("longest pause between chunks", found.gap_ms),
        _spread("whole answer", found.total_ms),
        _spread("wait for a slot of the engine", found.queue_ms),
        _spread("the generator's own lateness", found.late_ms),
    ]
    note = "Times count from the moment a request was due, whatever held it up; of answered requests. TPOT is 0 where "
    note += "an answer came at once."
    return Table(title="Times (ms)", columns=("", *_SPREAD), rows=rows, note=note)


def _overview(result: Result) -> Table:
    found = result.summary
    hits = sum(group.hits for group in found.by_source.values())
    rows: list[list[Any]] = [
        ["requests asked", found.asked],
        ["answered whole", found.answered],
        ["failed", found.failed],
        ["asked a second", found.asked_per_s],
        ["answered a second", found.answered_per_s],
        ["tokens a second", found.tokens_per_s],
        ["hit rate of all answers", hits / found.answered if found.answered else None],
        ["prompt tokens before compression (mean)", found.tokens_before],
        ["prompt tokens after compression (mean)", found.tokens_after],
        ["prompt tokens that engines had computed before", _percent(found.cached_share)],
        ["dollars per request", found.cost_per_request],
        ["dollars per request saved by hits", found.saved / max(1, found.asked)],
    ]
    if result.search is not None and (bound := result.scenario.bound) is not None:
        best = result.search.best
        what = f"highest rate with {100 * bound.share:g}% of first tokens within {bound.ttft_ms:g} ms (a second)"
        more = " or more" if result.search.open_end else ""
        rows.append([what, None if best is None else f"{best.summary.asked_per_s:g} (×{best.multiple:g}){more}"])
    return Table(title="Overview", columns=("", "figure"), rows=rows)


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f}%"


def _groups(title: str, groups: dict[str, Group]) -> Table:
    columns = ("", "asked", "share", "answered", "hit rate", "TTFT P50", "P95", "P99", "whole P50", "P99", "dollars")
    rows = [
        [
            name,
            one.asked,
            _percent(one.share),
            one.answered,
            _percent(one.hit_rate),
            one.ttft_ms.p50,
            one.ttft_ms.p95,
            one.ttft_ms.p99,
            one.total_ms.p50,
            one.total_ms.p99,
            one.cost,
        ]
        for name, one in groups.items()
    ]
    return Table(title=title, columns=columns, rows=rows)


def _curve(found: Found) -> Table:
    columns = ("×", "asked a second", "answered a second", "failed", "TTFT P50", "P95", "P99", "within", "", "late P99")
    rows = [
        [
            f"{point.multiple:g}",
            point.summary.asked_per_s,
            point.summary.answered_per_s,
            point.summary.failed,
            point.summary.ttft_ms.p50,
            point.summary.ttft_ms.p95,
            point.summary.ttft_ms.p99,
            _percent(point.within),
            verdict(point),
            point.summary.late_ms.p99,
        ]
        for point in found.points
    ]
    return Table(title="Rates that were tried", columns=columns, rows=rows)


def verdict(point: Point) -> str:
    """What became of the bound at a point."""
    return "held" if point.held else "the generator was late" if point.summary.invalid else "broken"


def point_line(point: Point) -> str:
    """A point for a terminal."""
    found = point.summary
    times = f"first token P50 {shown(found.ttft_ms.p50)}, P99 {shown(found.ttft_ms.p99)} ms, {found.failed} failed"
    return f"×{point.multiple:g}: {found.asked_per_s:g} requests a second, {times}: {verdict(point)}"


def _busy(result: Result) -> Table:
    asked = max(1, result.summary.asked)
    seconds = result.summary.seconds
    rows = [
        [name, one.processes, one.cores, one.busiest, 1000 * one.cores * seconds / asked]
        for name, one in result.busy.items()
    ]
    note = "An event loop has one core: the service whose busiest process comes near 1 is the bottleneck."
    columns = ("", "processes", "cores", "busiest process", "ms of processor per request")
    return Table(title="Processor time", columns=columns, rows=rows, note=note)


def _waterfall(samples: list[Sample]) -> Part:
    misses = [one for one in samples if one.ok and not one.hit and one.stages]
    named = {name for one in misses for name in one.stages} - {"total"}
    half = {name: percentile([one.stages[name] for one in misses if name in one.stages], 0.5) for name in named}
    first = percentile([one.ttft_ms for one in misses if one.ttft_ms is not None] or [0.0], 0.5)
    total = percentile([one.total_ms for one in misses] or [0.0], 0.5)
    note = f"Median times of {len(misses)} answers that a model made. " if misses else ""
    note += (
        "Each stage is drawn where the path begins it." if half else "No stages were told: over HTTP there are none."
    )
    return waterfall_plot(waterfall(half, first, total) if half else [], note)


def report(result: Result) -> str:
    """The page."""
    found, machine = result.summary, result.machine
    parts: list[Part] = [_overview(result), _times(found)]
    if result.search is not None and result.scenario.bound is not None:
        parts += [curve_plot(result.search, result.scenario.bound.ttft_ms), _curve(result.search)]
    parts += [
        distribution_plot(result.samples),
        _waterfall(result.samples),
        Table(
            title="Stages (ms)",
            columns=("", *_SPREAD),
            rows=[_spread(name, one) for name, one in found.stages_ms.items()],
            note="As the orchestrator counts them; `queue` is part of `first_token`.",
        ),
        _groups("By where the answer came from", found.by_source),
        _groups("By kind of request", found.by_kind),
        cost_plot(found.by_source, found.asked),
        Table(
            title="Outcomes",
            columns=("", "requests", "what the first one said"),
            rows=[[name, n, found.details.get(name, "")] for name, n in found.outcomes.items()],
        ),
    ]
    parts += [_busy(result)] if result.busy else []
    where = f"{machine.cores} cores, load {machine.load:g} at the end, {machine.system}, Python {machine.python}"
    parts += [
        Words(title="Command", text=result.command, note=where),
        Words(title="Scenario", text=_scenario(result)),
    ]
    return page(f"Load test {result.name}", result.about, parts, invalid=found.invalid)


def _scenario(result: Result) -> str:
    return written(msgspec.to_builtins(result.scenario) | ({"bound": {}} if result.scenario.bound is None else {}))


def lines(result: Result) -> list[str]:
    """What the command prints."""
    found = result.summary
    rows = [*_overview(result).rows, *([name, n] for name, n in found.outcomes.items() if name != "done")]
    rows += [[f"  {name}: {detail}", ""] for name, detail in found.details.items()]
    said = [result.about, *(f"  {name:72} {shown(value)}" for name, value in rows), ""]
    said += [f"  {'ms':36}" + "".join(f"{name:>11}" for name in _SPREAD)]
    said += [f"  {row[0]:36}" + "".join(f"{shown(cell):>11}" for cell in row[1:]) for row in _times(found).rows]
    said += [f"  {row[0]:36} {row[1]:2} of {row[2]:.3f} cores, {row[4]:.2f} ms a request" for row in _busy(result).rows]
    return [*said, *([f"NOT VALID: {found.invalid}"] if found.invalid else [])]
