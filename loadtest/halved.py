"""The command of an evaluation whose parameters were chosen on one half of its questions."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

Report = TypeVar("Report", bound=msgspec.Struct)


def command(
    about: str | None, chosen: str, evaluated: Callable[[Path, int, Path], Report], show: Callable[[Report], None]
) -> int:
    """Reads the options, evaluates and prints. `chosen` says what half 0 was used for; the other is the default."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--half", type=int, choices=(0, 1), default=1, help=f"0: what {chosen} chosen on")
    parser.add_argument("--models", type=Path, default=Path(".hasten"), help="the data folder with models/")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    report = evaluated(given.data, given.half, given.models)
    if given.json:
        print(msgspec.json.encode(report).decode())
    else:
        show(report)
    return 0
