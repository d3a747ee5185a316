"""`python -m loadtest.affinity --data DIR` replays a trace of conversations in virtual time and prints what each way to
choose a worker makes of it; `--real` sends a piece of it through real processes on NATS, and through a replay."""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from loadtest.affinity.plot import plot
from loadtest.affinity.real import REQUESTS, RealRow, real
from loadtest.affinity.report import Report, Row, report
from loadtest.affinity.trace import FILE, read


def main(argv: Sequence[str] | None = None) -> int:
    """The command; 0 also when the trace is not there, which is said."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.affinity", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help=f"folder that holds {FILE}")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--plot", type=Path, help="draw the picture there (.svg)")
    parser.add_argument("--limit", type=int, help="so many requests of the trace")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--real", action="store_true", help="real processes, NATS and clocks")
    given = parser.parse_args(argv)
    if not (given.data / FILE).is_file():
        print(msgspec.json.encode({"skipped": f"no {FILE} in the data folder"}).decode() if given.json else
              f"skipped: there is no {FILE} in {given.data}")  # fmt: skip
        return 0
    trace = read(given.data, given.limit)
    if given.real:
        _say(asyncio.run(real(trace[:REQUESTS], given.workers)), given.json)
        return 0
    found = report(trace, given.workers)
    if given.plot:
        plot(found, given.plot)
    _say(found, given.json)
    return 0


def _say(found: Report | list[RealRow], as_json: bool) -> None:
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    elif isinstance(found, Report):
        _show(found)
    else:
        print("| | requests | failed | cached | replayed | TTFT P50 | replayed | P95 | replayed | shares |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---|")
        for row in found:
            print(_real_line(row))


def _real_line(row: RealRow) -> str:
    rates = f"{row.hit_rate:.1%} | {row.hit_rate_replayed:.1%}"
    times = (row.p50_ms, row.p50_ms_replayed, row.p95_ms, row.p95_ms_replayed)
    shares = " ".join(f"{share:.0%}" for share in row.shares)
    timed = " | ".join(f"{ms / 1000:.2f} s" for ms in times)
    return f"| {row.case} | {row.requests} | {row.failed} | {rates} | {timed} | {shares} |"


def _show(found: Report) -> None:
    print(f"{found.requests} requests, {found.workers} workers; one cache without bounds: {found.ceiling:.1%}")
    print(f"on the whole trace: {found.whole_ceiling:.1%}")
    for title in ("compared", "whole", "caches", "routers", "slower", "tuned"):
        print(f"\n| {title} | load | cached blocks | TTFT P50 | P95 | P99 | busiest | first worker |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|")
        for row in getattr(found, title):
            print(_line(row))


def _line(row: Row) -> str:
    times = " | ".join(f"{ms / 1000:.2f} s" for ms in (row.p50_ms, row.p95_ms, row.p99_ms))
    return f"| {row.case} | {row.load:g} | {row.hit_rate:.1%} | {times} | {row.most:.1%} | {row.first:.1%} |"


if __name__ == "__main__":
    raise SystemExit(main())
