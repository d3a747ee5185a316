"""`python -m loadtest.staleness --operations N --seed N --json`: exits with 1 when a stale answer was found."""

import argparse
import sys
import tempfile
from pathlib import Path

import msgspec

from hasten.run import run_loop
from loadtest.staleness.run import Report, search


def main() -> int:
    """Runs one scenario and prints its report."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.staleness", description=__doc__)
    parser.add_argument("--operations", type=int, default=100_000, help="lookups, puts, changes and invalidations")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of operations and faults")
    parser.add_argument("--chat", action="store_true", help="ask orchestrators, which ask the caches")
    parser.add_argument("--replicas", type=int, default=3, help="of each service")
    parser.add_argument("--every", type=float, default=4.0, metavar="S", help="mean seconds between two faults")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    given = parser.parse_args()
    found: list[Report] = []

    async def work() -> int:
        with tempfile.TemporaryDirectory() as folder:
            made = await search(
                given.operations,
                given.seed,
                Path(folder),
                chat=given.chat,
                replicas=given.replicas,
                every_s=given.every,
            )
        found.append(made)
        return int(made.violations > 0)

    code = run_loop(work())
    for report in found:
        show(report, as_json=given.json)
    return code


def show(report: Report, *, as_json: bool) -> None:
    """Prints the report for programs or for people."""
    if as_json:
        print(msgspec.json.encode(report).decode())
        return
    print(
        f"{report.operations:,} operations in {report.seconds:g} s, seed {report.seed}: {report.violations} violations"
    )
    for name in ("counts", "hits", "misses", "puts", "faults"):
        print(f"  {name}: " + ", ".join(f"{key} {value:,}" for key, value in sorted(getattr(report, name).items())))
    for one in report.first:
        print(f"  {msgspec.json.encode(one).decode()}")


if __name__ == "__main__":
    sys.exit(main())
