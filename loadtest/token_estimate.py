"""Sets the estimate for models without a tokenizer beside tokenizers: it must not be less than any of them counts.

    python -m loadtest.token_estimate [--tokenizer FILE ...] [--json]

FILE is a tokenizer.json of any model; without one those of the data folder are taken. The texts are this project's
prose, source and JSON, a question in each of 26 languages, and what breaks words apart.
"""

import argparse
import sys
from pathlib import Path

import msgspec
from tokenizers import Tokenizer

from hasten.compressor.byte_estimate import ByteEstimate
from loadtest.foreign_texts import FOREIGN
from loadtest.prompt_counting import PIECES

LONGEST = 4000
ROOT = Path(__file__).parents[1]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One tokenizer on one kind of text: the estimate by its count, over all texts and for the worst of them."""

    tokenizer: str
    kind: str
    texts: int
    mean: float
    least: float


def texts() -> dict[str, list[str]]:
    """The texts by kind."""

    def read(pattern: str) -> list[str]:
        return [path.read_text(encoding="utf-8")[:LONGEST] for path in sorted(ROOT.glob(pattern))]

    return {
        "prose": read("**/README.md") + read("docs/**/*.md"),
        "source": read("services/**/*.py"),
        "json": read("tests/contracts/*.json"),
        "languages": list(FOREIGN.values()),
        "awkward": [piece for piece in PIECES if piece],
    }


def measured(path: Path) -> list[Row]:
    """The estimate beside one tokenizer."""
    tokenizer, estimate = Tokenizer.from_file(str(path)), ByteEstimate()
    tokenizer.no_truncation()
    tokenizer.no_padding()
    rows = []
    for kind, found in texts().items():
        ours = estimate.counts(found)
        theirs = [len(one) for one in tokenizer.encode_batch_fast(found, add_special_tokens=False)]
        least = min(mine / max(1, real) for mine, real in zip(ours, theirs, strict=True))
        mean = sum(ours) / max(1, sum(theirs))
        name = path.parent.name if path.name == "tokenizer.json" else path.stem
        rows.append(Row(tokenizer=name, kind=kind, texts=len(found), mean=round(mean, 2), least=round(least, 2)))
    return rows


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, nargs="*", default=[])
    parser.add_argument("--models", type=Path, default=Path(".hasten"), help="the data folder with models/")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    paths = given.tokenizer or sorted(given.models.glob("models/*/tokenizer.json"))
    if not paths:
        print(f"skipped: no tokenizer.json in {given.models}/models")
    rows = [row for path in paths for row in measured(path)]
    if given.json:
        print(msgspec.json.encode(rows).decode())
        return 0
    for row in rows:
        print(f"{row.tokenizer:24} {row.kind:10} {row.texts:4} texts: {row.mean:.2f} times, at least {row.least:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
