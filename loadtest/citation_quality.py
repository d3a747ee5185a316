"""Whether the verification of citations keeps what a passage bears out, and catches what it does not: `--data DIR`.

Sentences of nq_open_oracle, hotpot100 and XQuAD, as they stand, shortened, or made of a question and its answer; and
the same beside a near passage, with another figure, another name, or negated. The bound is fitted on every other
question (`--fit`), and what is printed is of the rest.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hasten.orchestrator.verification.reading import reading
from hasten.orchestrator.verification.support import COVERED, evidence_of, support
from loadtest.citation_claims import Case, cases

BOUNDS = [at / 20 for at in range(6, 20)]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of sentence: of how many, what share was found to be borne out, and by words alone."""

    source: str
    kind: str
    supported: bool
    sentences: int
    found: float
    words_alone: float


def judged(case: Case, covered: float) -> tuple[bool, bool]:
    """Whether it is found to be borne out, and whether its words alone would say so."""
    best = support(reading(case.said), evidence_of(case.passage), covered)
    return best is not None and not best.fault, best is not None and best.covered >= covered


def rows(all_: Sequence[Case], covered: float) -> list[Row]:
    """A row for each kind of each source, then for all sources together."""
    made: list[Row] = []
    verdicts = [(case, judged(case, covered)) for case in all_]
    for source in [*dict.fromkeys(case.source for case in all_), "all"]:
        for kind in dict.fromkeys(case.kind for case in all_):
            of = [one for one in verdicts if one[0].kind == kind and source in (one[0].source, "all")]
            if of:
                found, words = (sum(one[1][at] for one in of) / len(of) for at in (0, 1))
                made.append(
                    Row(
                        source=source,
                        kind=kind,
                        supported=of[0][0].supported,
                        sentences=len(of),
                        found=round(found, 3),
                        words_alone=round(words, 3),
                    )
                )
    return made


def balanced(all_: Sequence[Row]) -> tuple[float, float]:
    """The share kept of what is borne out, and caught of what is not: the mean over the kinds."""
    whole = [row for row in all_ if row.source == "all"]
    kept = [row.found for row in whole if row.supported]
    caught = [1 - row.found for row in whole if not row.supported]
    return sum(kept) / len(kept), sum(caught) / len(caught)


def fitted(all_: Sequence[Case]) -> float:
    """The bound with the best mean of both sides."""
    return max(BOUNDS, key=lambda bound: sum(balanced(rows(all_, bound))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the public data")
    parser.add_argument("--limit", type=int, default=500, help="questions of each source at most")
    parser.add_argument("--fit", action="store_true", help="fit the bound on the other half first")
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    try:
        all_ = list(cases(options.data, options.limit))
    except FileNotFoundError as error:
        print(f"skipped: {error.filename} is not there")
        return 0
    fit, rest = ([case for case in all_ if case.row % 2 == side] for side in (0, 1))
    covered = fitted(fit) if options.fit else COVERED
    began = time.perf_counter()
    made = rows(rest, covered)
    each_ms = (time.perf_counter() - began) / len(rest) * 1000
    print(f"bound {covered:.2f}; {len(rest)} sentences that nothing was fitted on; {each_ms:.2f} ms each")
    print("source          kind        sentences  borne out  by words alone")
    for row in made:
        print(f"{row.source:15} {row.kind:11} {row.sentences:9}  {row.found:9.1%}  {row.words_alone:14.1%}")
    kept, caught = balanced(made)
    print(f"kept of what is borne out {kept:.1%}, caught of what is not {caught:.1%} (means over the kinds)")
    if options.json:
        body = {"bound": covered, "kept": kept, "caught": caught, "rows": msgspec.to_builtins(made)}
        options.json.write_text(json.dumps(body, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
