"""Replays recorded traffic as it was and as fast as it can be: the reports and the tables of docs/traces.md.

`python -m loadtest.traces --data DIR --out REPORTS` runs the scenarios of the recorded traces one after the
other (six minutes each), writes the page and the JSON file of each, and prints the tables. `--no-search` leaves out the
search for the highest speed, `--tables` runs nothing and prints the tables of reports that are there.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hasten.run import run_loop
from hasten.settings import SettingsError
from loadtest.html_report import shown
from loadtest.result import Result
from loadtest.run import Options, ran
from loadtest.written_report import verdict

FOLDER = Path(__file__).parent / "scenarios"
NAMES = ("azure-conversation", "azure-code", "mooncake-conversation")
_NAMED = {name: name.replace("-", ", ") for name in NAMES}


def tables(results: Sequence[Result]) -> str:
    """The three tables in Markdown."""
    return "\n\n".join((_as_recorded(results), _until_it_breaks(results), _processors(results)))


def _as_recorded(results: Sequence[Result]) -> str:
    head = ("trace", "asked", "failed", "first token P50", "P95", "P99", "added by hasten P50", "P99", "late P99")
    rows = []
    for one in results:
        found = one.summary
        times = (found.ttft_ms.p50, found.ttft_ms.p95, found.ttft_ms.p99, found.added_ms.p50, found.added_ms.p99)
        rows.append((_NAMED[one.name], found.asked, found.failed, *times, found.late_ms.p99))
    return _markdown(head, rows)


def _until_it_breaks(results: Sequence[Result]) -> str:
    head = ("trace", "bound", "×", "asked a second", "tokens a second", "first token P99", "within", "", "late P99")
    rows = []
    for one in results:
        for point in one.search.points if one.search is not None else ():
            found, bound = point.summary, one.scenario.bound
            limit = f"{bound.ttft_ms:g} ms" if bound is not None else None
            figures = (found.asked_per_s, found.tokens_per_s, found.ttft_ms.p99, f"{100 * point.within:.1f}%")
            rows.append((_NAMED[one.name], limit, f"{point.multiple:g}", *figures, verdict(point), found.late_ms.p99))
    return _markdown(head, rows)


def _processors(results: Sequence[Result]) -> str:
    names = sorted({name for one in results for name in one.busy})
    rows = []
    for one in results:
        per_request = 1000 * one.summary.seconds / max(1, one.summary.asked)
        rows.append((_NAMED[one.name], *(round(per_request * one.busy[name].cores, 1) for name in names)))
    return _markdown(("ms of processor time per request", *names), rows)


def _markdown(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(shown(cell) for cell in line)} |" for line in lines)


async def carried_out(data: Path | None, out: Path, seed: int, *, no_search: bool, only_tables: bool) -> int:
    """Runs the command; 1 when a run was not valid."""
    results = []
    for name in NAMES:
        if not only_tables:
            options = Options(scenario=FOLDER / f"{name}.toml", data=data, out=out, seed=seed, no_search=no_search)
            await ran(options)
        try:
            results.append(await asyncio.to_thread(_read, out / f"{name}.json"))
        except OSError as error:
            raise SettingsError(f"{out / name}.json cannot be read: {error.strerror}") from None
    print(tables(results))
    return int(any(one.summary.invalid for one in results))


def _read(path: Path) -> Result:
    return msgspec.json.decode(path.read_bytes(), type=Result)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.traces", description=__doc__)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with azure_llm_2023 and mooncake_traces")
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where the reports go, or are")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-search", action="store_true")
    parser.add_argument("--tables", action="store_true", help="run nothing: print the tables of the reports in --out")
    given = parser.parse_args()
    work = carried_out(given.data, given.out, given.seed, no_search=given.no_search, only_tables=given.tables)
    sys.exit(run_loop(work))


if __name__ == "__main__":
    main()
