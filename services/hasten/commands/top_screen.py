"""The screen of `hasten top`: figures of a board as tables that fit 80 columns."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hasten.board import Eviction, ModelRow, TenantRow, View, WorkerRow
from hasten.discovery import Running
from hasten.tally import SOURCES, Percentiles

MOST_ROWS = 8
BLOCKS = " ▁▂▃▄▅▆▇█"


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown at one moment; `away_s` is how long NATS has been away, None while it is there. `services` are
    those that said what they do, None where nobody was asked."""

    view: View
    services: list[Running] | None = None
    away_s: float | None = None
    url: str = ""


def screen(frame: Frame) -> RenderableType:
    """All of it, from top to bottom."""
    view = frame.view
    parts: list[RenderableType] = [_heading(frame), _requests(view), _sources(view)]
    if view.models:
        parts += [Text(), _models(view.models)]
    if view.workers:
        parts += [Text(), _workers(view.workers)]
    if frame.services:
        parts += [Text(), _services(frame.services)]
    if view.tenants:
        parts += [Text(), _tenants(view.tenants)]
    if view.latest:
        parts += [Text(), _latest(view.latest, tenants=not view.tenant)]
    return Group(*parts)


def _heading(frame: Frame) -> Text:
    whose = f"tenant {frame.view.tenant}" if frame.view.tenant else "all tenants"
    line = Text(
        f"hasten at {frame.url}, {whose}, the last {frame.view.seconds:.0f} s", style="bold", overflow="ellipsis"
    )
    line.no_wrap = True
    if frame.away_s is not None:
        line = Text.assemble(
            line, "\n", (f"NATS has been away for {frame.away_s:.0f} s: figures are of then", "red bold")
        )
    return line


def _requests(view: View) -> Text:
    figures = view.figures
    parts = [
        f"{figures.requests} request{'' if figures.requests == 1 else 's'}",
        f"{figures.per_s:.1f}/s",
        f"{figures.tokens_per_s:.0f} tokens/s",
        f"hit rate {_share(figures.hit_rate)}",
        f"{figures.saved_tokens} tokens saved",
    ]
    more = [] if view.active is None else [f"{view.active}/{view.slots} slots, {view.queued} in line"]
    if view.lost:
        more.append(f"{view.lost} events lost")
    lines = [" · ".join(line) for line in (parts, more) if line]
    return Text("\n".join(lines) + "\n" + spark(sum(one.ended.values()) for one in view.moments))


def spark(counts: Iterable[int], width: int = 60) -> str:
    """Requests over time as a line of blocks, the newest last."""
    last = list(counts)[-width:]
    most = max(last, default=0)
    return "".join(BLOCKS[-(-count * (len(BLOCKS) - 1) // most)] if most else BLOCKS[0] for count in last)


def _sources(view: View) -> Table:
    figures = view.figures
    table = _table("answered by", "requests", "share", "TTFT p50", "p95", "p99")
    for source in SOURCES:
        if count := figures.ended.get(source, 0):
            share = _share(count / figures.requests if figures.requests else None)
            table.add_row(source, str(count), share, *_times(figures.ttft.get(source, Percentiles())))
    table.add_row("all", str(figures.requests), "", *_times(figures.ttft.get("all", Percentiles())), style="bold")
    return table


def _models(rows: Sequence[ModelRow]) -> Table:
    table = _table("model", "workers", "busy", "in line", "TTFT p50", "p95", "p99")
    for one in rows[:MOST_ROWS]:
        busy = "-" if one.active is None else f"{one.active}/{one.slots}"
        table.add_row(one.name, str(one.ready), busy, _number(one.queued), *_times(one.ttft))
    return _cut(table, rows)


def _workers(rows: Sequence[WorkerRow]) -> Table:
    table = _table("worker", "model", "state", "busy", "in line", "faults", "loop")
    for one in rows[:MOST_ROWS]:
        faults = f"{one.faults}/{one.attempts}"
        load = (f"{one.active}/{one.slots}", str(one.queued), faults, f"{one.loop_lag_ms:.0f} ms")
        style = "" if one.state == "ready" else "red"
        table.add_row(one.name, one.model, one.state, *load, style=style)
    return _cut(table, rows)


def _services(services: Sequence[Running]) -> Table:
    table = _table("service", "replicas", "active", "waiting", "requests", "errors")
    for name in sorted({one.name for one in services}):
        some = [one for one in services if one.name == name]
        sums = [sum(int(one.report.get(what, 0)) for one in some) for what in ("active", "pending")]
        counts = [
            sum(row.get(what, 0) for one in some for row in one.endpoints) for what in ("num_requests", "num_errors")
        ]
        table.add_row(name, str(len(some)), *(str(value) for value in (*sums, *counts)))
    return table


def _tenants(rows: Sequence[TenantRow]) -> Table:
    table = _table("tenant", "requests", "hit rate", "TTFT p95")
    for one in rows[:MOST_ROWS]:
        table.add_row(one.name, str(one.requests), _share(one.hit_rate), _ms(one.p95_ms))
    return _cut(table, rows)


def _latest(rows: Sequence[Eviction], *, tenants: bool) -> Table:
    table = _table("latest invalidations", *(["tenant"] if tenants else []), "entries", "why", "ago")
    for one in rows[:MOST_ROWS]:
        tags = ", ".join(one.tags) or "-"
        table.add_row(tags, *([one.tenant] if tenants else []), str(one.entries), one.reason, f"{one.age_s:.0f} s")
    return table


def _table(first: str, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False, expand=False)
    table.add_column(first, no_wrap=True, overflow="ellipsis", max_width=28)
    for name in columns:
        words = name in ("model", "state", "tenant", "why")
        table.add_column(name, justify="left" if words else "right", no_wrap=True, overflow="ellipsis", max_width=18)
    return table


def _cut(table: Table, rows: Sequence[Any]) -> Table:
    if len(rows) > MOST_ROWS:
        table.add_row(f"and {len(rows) - MOST_ROWS} more")
    return table


def _times(found: Percentiles) -> tuple[str, str, str]:
    return _ms(found.p50_ms), _ms(found.p95_ms), _ms(found.p99_ms)


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.0f} s"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
