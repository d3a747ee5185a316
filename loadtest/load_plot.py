"""The pictures of a load test: waterfall, distribution of times, throughput against latency, and cost."""

from collections.abc import Mapping, Sequence

from loadtest.html_report import COLOURS, Plot, canvas, drawn
from loadtest.sample import Sample
from loadtest.search import Found
from loadtest.summary import Group
from loadtest.waterfall import Bar

_POINTS = 160
"""Of a curve: more cannot be seen."""


def waterfall_plot(bars: Sequence[Bar], note: str) -> Plot:
    """One bar for each stage, the first on top."""
    with canvas(height=0.8 + 0.34 * max(1, len(bars))) as (figure, axes):
        for at, one in enumerate(bars):
            width = max(one.end_ms - one.start_ms, 0.0)
            axes.barh(at, width, left=one.start_ms, height=0.62, color=COLOURS[at % len(COLOURS)])
            axes.text(one.end_ms, at, f" {width:,.1f} ms", va="center", fontsize=8)
        axes.set_yticks(range(len(bars)), [one.name for one in bars])
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.set_xlim(left=0)
        axes.set(xlabel="ms from the moment the orchestrator has the request")
        axes.grid(axis="y", visible=False)
        return Plot(title="Where the time goes", svg=drawn(figure, "waterfall"), note=note)


def distribution_plot(samples: Sequence[Sample]) -> Plot:
    """The share of requests that is later than a time, both in powers of ten: the tail is where the line ends."""
    named = {
        "first token": [one.ttft_ms for one in samples if one.ok and one.ttft_ms is not None],
        "whole answer": [one.total_ms for one in samples if one.ok],
        "begun late by the generator": [max(0.01, one.late_ms) for one in samples],
    }
    with canvas() as (figure, axes):
        for name, times in named.items():
            if times:
                values, shares = _later(times)
                axes.step(values, shares, label=name, where="post", linewidth=1.6)
        for share, name in ((0.5, "P50"), (0.05, "P95"), (0.01, "P99")):
            axes.axhline(share, linewidth=0.6, linestyle=":", color=COLOURS[5])
            axes.annotate(name, (1, share), xycoords=("axes fraction", "data"), fontsize=8, ha="right", va="bottom")
        axes.set(xscale="log", yscale="log", xlabel="ms since the request was due", ylabel="share that is later")
        axes.legend(fontsize=8, loc="lower left")
        return Plot(title="How the times are spread", svg=drawn(figure, "spread"))


def _later(times: Sequence[float]) -> tuple[list[float], list[float]]:
    """Times, and the share of all that is at least so long, at points dense in the tail."""
    ordered, many = sorted(times), len(times)
    at = sorted(
        {min(many - 1, round(many * (1 - 10 ** (-step * 5 / _POINTS)))) for step in range(_POINTS)} | {many - 1}
    )
    return [ordered[one] for one in at], [(many - one) / many for one in at]


def curve_plot(found: Found, ttft_ms: float) -> Plot:
    """First-token percentiles at each rate that was tried, and the bound."""
    points = [point for point in found.points if point.summary.ttft_ms.n]
    with canvas() as (figure, axes):
        rates = [point.summary.asked_per_s for point in points]
        for name in ("p50", "p95", "p99"):
            times = [getattr(point.summary.ttft_ms, name) for point in points]
            axes.plot(rates, times, marker="o", markersize=4, label=name.upper(), linewidth=1.5)
        axes.axhline(ttft_ms, linestyle="--", linewidth=1, color=COLOURS[7], label=f"bound, {ttft_ms:g} ms")
        if found.best is not None:
            axes.axvline(found.best.summary.asked_per_s, linestyle=":", linewidth=1, color=COLOURS[5])
        axes.set(yscale="log", xlabel="requests a second", ylabel="ms to the first token")
        axes.legend(fontsize=8, loc="upper left")
        note = "The dotted line is the highest rate that keeps the bound. Failures count as too late."
        return Plot(title="Throughput against latency", svg=drawn(figure, "curve"), note=note)


def cost_plot(groups: Mapping[str, Group], asked: int) -> Plot:
    """Dollars per 1,000 requests by where the answer came from: what was paid, and what hits would have cost."""
    with canvas(height=0.9 + 0.45 * max(1, len(groups))) as (figure, axes):
        for at, one in enumerate(groups.values()):
            paid, saved = 1000 * one.cost / max(1, asked), 1000 * one.saved / max(1, asked)
            axes.barh(at, paid, height=0.6, color=COLOURS[0], label="paid" if not at else None)
            axes.barh(at, saved, left=paid, height=0.6, color=COLOURS[2], alpha=0.55, label="saved" if not at else None)
            axes.text(paid + saved, at, f" {paid:,.4f} paid, {saved:,.4f} saved", va="center", fontsize=8)
        axes.set_yticks(range(len(groups)), list(groups))
        axes.invert_yaxis()
        axes.margins(x=0.35)
        axes.set_xlim(left=0)
        axes.grid(axis="y", visible=False)
        axes.set(xlabel="dollars per 1,000 requests")
        if groups:
            axes.legend(fontsize=8, loc="lower right")
        return Plot(title="Cost", svg=drawn(figure, "cost"), note="By the prices of the model table.")
