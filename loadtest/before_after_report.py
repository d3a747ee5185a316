"""The before-and-after as tables: on the terminal, and as one HTML file."""

import msgspec

from loadtest.before_after_row import Row
from loadtest.html_report import Part, Plot, Table, Words, canvas, drawn, page, shown
from loadtest.stages import Stack

LEAD = (
    "Only the models are simulated, and in the naive pipeline its stages, pinned to the published times; retrieval, "
    "cache, routing, compression and the bus really run."
)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One rate of the ladder, in requests a second, and the tails there in ms."""

    rate: float
    ttft_p95: float
    ttft_p99: float
    total_p95: float
    failed: int = 0


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A bound on the P95, of the whole answer or of the first token, and the most requests a second that the naive
    pipeline answers within it."""

    ms: float
    whole: bool
    naive: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that one stack came to. `naive` are three rows: whole answers, streamed, saturated. `load` is the machine's
    before and after."""

    stack: Stack
    slots: int
    token_budget: int
    passages: int
    naive: list[Row]
    main: list[Row]
    by_label: Row
    saturated: list[Row]
    ladder: list[Step]
    bounds: list[Bound]
    levers: list[Row]
    load: list[float] = []

    @property
    def headline(self) -> Row:
        """At 35% repeated questions, or the last share that was run."""
        return next((one for one in self.main if round(one.repeats * 100) == 35), self.main[-1])

    @property
    def naive_per_s(self) -> float:
        """What saturates the naive pipeline, by its stages: what a short run measures is less, never more."""
        return 1000 * self.slots / self.stack.total_ms

    def rate_within(self, bound_ms: float, *, whole: bool) -> float:
        """The most requests a second of hasten whose P95 was within a bound, among the rates that were tried up to the
        first one that was not."""
        best = 0.0
        for step in sorted(self.ladder, key=lambda one: one.rate):
            if step.failed or (step.total_p95 if whole else step.ttft_p95) > bound_ms:
                break
            best = step.rate
        return best


def tables(report: Report) -> list[Table]:
    """Every table."""
    made = [_headline(report), _published(report), _shares(report), _kinds(report), _rates(report)]
    return [*made, _levers(report)] if report.levers else made


def _headline(report: Report) -> Table:
    naive, ours = report.naive[0], report.headline
    fast = next((one for one in report.saturated if one.repeats == ours.repeats), report.saturated[-1])
    lines = [
        ("TTFT P50, ms", naive.ttft.p50, ours.ttft.p50),
        ("TTFT P95, ms", naive.ttft.p95, ours.ttft.p95),
        ("TTFT P99, ms", naive.ttft.p99, ours.ttft.p99),
        ("whole answer P50, ms", naive.total.p50, ours.total.p50),
        ("whole answer P95, ms", naive.total.p95, ours.total.p95),
        ("whole answer P99, ms", naive.total.p99, ours.total.p99),
        ("requests a second, saturated", report.naive_per_s, fast.rate),
        ("dollars a request", naive.dollars, ours.dollars),
        ("prompt tokens a call", naive.prompt_tokens, ours.prompt_tokens),
        ("first token of hits P50, ms", None, ours.hit_ttft.p50),
        ("first token of hits P99, ms", None, ours.hit_ttft.p99),
        ("TTFT of misses P95, ms", naive.ttft.p95, ours.miss_ttft.p95),
        ("evidence in the prompt", naive.evidence, ours.evidence),
    ]
    rows = [(name, was, now, _times(was, now)) for name, was, now in lines]
    asked = f"{ours.repeats:.0%} of the questions repeated; naive at {naive.rate:.2f} requests a second, hasten at"
    return Table(
        title=f"Headline, stack {report.stack.name}",
        columns=("", "naive", "hasten", "times"),
        rows=rows,
        note=f"{asked} {ours.rate:.2f}; {report.slots} slots of the provider for either. "
        f"Load of the machine before and after: {', '.join(map(str, report.load))}.",
    )


def _times(was: float | None, now: float | None) -> float | None:
    return max(was, now) / min(was, now) if was and now else None


def _published(report: Report) -> Table:
    ours, fast = report.headline, report.saturated
    full = next((one for one in fast if one.repeats == ours.repeats), fast[-1])
    reached = {
        "ttft_p50_ms": ours.ttft.p50,
        "ttft_p95_ms": ours.ttft.p95,
        "ttft_p99_ms": ours.ttft.p99,
        "total_p95_ms": ours.total.p95,
        "hit_ttft_ms": ours.hit_ttft.p99,
        "dollars": ours.dollars,
        "per_s": full.rate,
    }
    was, became = report.stack.was, report.stack.became
    rows = [(name, was.get(name), became[name], reached[name]) for name in became]
    return Table(
        title="Beside what was published",
        columns=("", "published before", "published after", "hasten"),
        rows=rows,
        note="per_s depends on the number of slots: the published ratio is what can be compared, "
        f"45 → 180 there and {report.naive_per_s:.2f} → {full.rate:.2f} here.",
    )


def _shares(report: Report) -> Table:
    columns = ("repeated", "TTFT P50", "P95", "P99", "whole P50", "P95", "P99", "req/s saturated", "$ a request")
    rest = (
        "exact",
        "semantic",
        "shared",
        "wrong hits",
        "failed",
        "evidence",
        "simple to small",
        "hard to large",
        "generator late P99",
    )
    full = {one.repeats: one.rate for one in report.saturated}
    rows = [
        (
            one.name if one.name != "hasten" else f"{one.repeats:.0%}",
            *(one.ttft.p50, one.ttft.p95, one.ttft.p99, one.total.p50, one.total.p95, one.total.p99),
            full.get(one.repeats) if one.name == "hasten" else None,
            one.dollars,
            *(one.exact, one.semantic, one.shared, one.wrong_hits, one.failed),
            *(one.evidence, one.simple_small, one.hard_large, one.late_p99),
        )
        for one in (*report.main, report.by_label)
    ]
    return Table(
        title="By the share of repeated questions",
        columns=(*columns, *rest),
        rows=rows,
        note="In the row by label (35%) each hard question goes to the large model and each simple one to the small.",
    )


def _kinds(report: Report) -> Table:
    rows = []
    for one in report.main:
        for kind, first, whole in (
            ("hits", one.hit_ttft, one.hit_total),
            ("misses", one.miss_ttft, one.miss_total),
        ):
            if first.count:
                name = f"{one.repeats:.0%}, {kind}"
                rows.append((name, first.count, first.p50, first.p95, first.p99, whole.p50, whole.p95, whole.p99))
    words = "; ".join(
        f"{source} {hits} of {count}" for source, (count, hits) in sorted(report.headline.rewordings.items())
    )
    return Table(
        title="Hits and misses apart",
        columns=("", "requests", "TTFT P50", "P95", "P99", "whole P50", "P95", "P99"),
        rows=rows,
        note=f"Paraphrases that came for the first time and were hits by meaning, in the headline run: {words}.",
    )


def _rates(report: Report) -> Table:
    rows = [
        (
            f"{'whole answer' if one.whole else 'TTFT'} P95 ≤ {one.ms:,.0f} ms",
            one.naive,
            ours := report.rate_within(one.ms, whole=one.whole),
            ours / one.naive if one.naive else None,
        )
        for one in report.bounds
    ]
    steps = ", ".join(f"{one.rate:.1f}: {one.ttft_p95:.0f}" for one in report.ladder)
    tail = f"Within {report.stack.total_ms:,.0f} ms, the published tail, a naive request waits for nobody."
    return Table(
        title="Requests a second within a bound",
        columns=("", "naive", "hasten", "times"),
        rows=rows,
        note="The naive figures are computed (no stage of it varies), hasten's are the highest rate tried that kept "
        f"the bound. {tail} TTFT P95 of hasten by rate: {steps}.",
    )


def _levers(report: Report) -> Table:
    columns = ("", "TTFT P50", "P95", "whole P50", "P95", "$ a request", "slot ms", "req/s of the slots", "tokens")
    rows = [
        (
            one.name,
            *(one.ttft.p50, one.ttft.p95, one.total.p50, one.total.p95, one.dollars),
            *(held := report.stack.total_ms if one.name.startswith("naive") else one.held_ms,),
            1000 * report.slots / held if held else None,
            *(one.prompt_tokens, one.evidence, one.exact + one.semantic + one.shared, one.wrong_hits),
        )
        for one in (*report.naive[:2], *report.levers)
    ]
    return Table(
        title="Each lever alone, and all together",
        columns=(*columns, "evidence", "hits", "wrong hits"),
        rows=rows,
        note="Each row after the naive ones is hasten with that lever alone: large model, whole retrieval in the "
        "prompt, no cache, and the first word shown with the last unless it streams. All have the stages side by side; "
        "the exact cache has the single flight with it, the semantic cache both. Req/s of the slots is what the "
        "provider's slots allow; a naive worker is busy for the whole time.",
    )


def markdown(report: Report) -> str:
    """The tables."""
    return "\n\n".join(map(_marked_down, tables(report)))


def _marked_down(table: Table) -> str:
    lines = [table.columns, ["---"] * len(table.columns), *([shown(cell) for cell in cells] for cells in table.rows)]
    rows = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"### {table.title}\n\n{rows}" + (f"\n\n{table.note}" if table.note else "")


def filled(text: str, report: Report) -> str:
    """A page of documentation with the tables between the marks of this stack; raises ValueError without marks."""
    begin, end = f"<!-- stack {report.stack.name} -->\n", f"<!-- end of stack {report.stack.name} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"there is no place for the tables: put {begin.strip()} and {end} into the page")
    return f"{before}{begin}\n{markdown(report)}\n\n{end}{after}"


def page_of(report: Report) -> str:
    """The HTML file."""
    parts: list[Part] = list(tables(report))
    parts.insert(2, _plot(report))
    command = f"python -m loadtest.before_after --data DIR --stack {report.stack.name} --out DIR"
    parts.append(Words(title="The command", text=command))
    return page(f"Before and after, stack {report.stack.name}", LEAD, parts)


def _plot(report: Report) -> Plot:
    with canvas() as (figure, axes):
        rates = [one.rate for one in report.ladder]
        axes.plot(rates, [one.ttft_p95 for one in report.ladder], marker="o", label="hasten, TTFT P95")
        axes.plot(rates, [one.total_p95 for one in report.ladder], marker="o", label="hasten, whole answer P95")
        naive = report.naive_per_s
        axes.plot([0, naive], [report.stack.total_ms] * 2, linestyle="--", label="naive, up to where it saturates")
        axes.set(xlabel="requests a second", ylabel="ms", ylim=(0, None), xlim=(0, None))
        axes.legend()
        svg = drawn(figure, "rates")
    return Plot(title="Latency against the rate", svg=svg, note=f"{report.slots} slots for either system.")
