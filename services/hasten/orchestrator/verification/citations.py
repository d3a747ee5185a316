"""Looks for each sentence of an answer in the passages that it cites, or in all where it cites none; pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from hasten.messages.check import Correction
from hasten.messages.retrieve import Passage
from hasten.orchestrator.verification.claim import Claim, claims
from hasten.orchestrator.verification.reading import Reading, reading
from hasten.orchestrator.verification.support import Shelf, Support, support

MOST_TOLD = 200
"""Sentences, and corrections of citations, that a reader is told of one answer; all are counted. A note of 4,000 would
be larger than a message may be."""
FEW = 2
"""Terms that a sentence without a citation has to have for it to be looked for: `Sure!` claims nothing."""
Outcome = Literal["supported", "unsupported", "uncited"]


class Verified(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sentence of the answer, `text[start:end]`. `outcome` is of what it cites; one that cites nothing is `uncited`,
    whatever it is found in. `passage` bears it out (`borne_out`), or comes nearest, in its text from `span[0]` to
    `span[1]`; `fault` is what is wrong with that. `elsewhere` is the number of a passage that it should have cited."""

    start: int
    end: int
    outcome: Outcome
    borne_out: bool
    cites: list[int] = []
    passage: str = ""
    span: tuple[int, int] | None = None
    covered: float = 0.0
    fault: str = ""
    elsewhere: int = 0


class Verification:
    """The sentences of one answer beside the passages of its prompt, one after another (`sentences`), so that the work
    can be interrupted. `passed` and `note` are of those that have been looked at."""

    def __init__(self, text: str, passages: Sequence[Passage], shelf: Shelf) -> None:
        self._text, self._passages, self._shelf = text, passages, shelf
        self._marks: list[tuple[Verified, Claim]] = []
        self.found: list[Verified] = []

    def sentences(self) -> Iterator[None]:
        """Each step looks for a sentence in a passage."""
        everywhere = range(1, len(self._passages) + 1)
        for claim in claims(self._text):
            said = reading(claim.said)
            if not claim.marks and len(said.terms) <= FEW:
                continue
            best: tuple[Support, int] | None = None
            for number in [one for one in claim.cites if one in everywhere] if claim.marks else everywhere:
                best = self._better(best, said, number)
                yield
            other = best
            for number in everywhere if claim.marks and not _bears(best) else ():
                other = self._better(other, said, number)
                yield
            made = _verified(claim, best[0] if best else None, other[1] if other and _bears(other) else 0)
            self.found.append(made)
            self._marks.append((made, claim))
            yield

    def _better(self, best: tuple[Support, int] | None, said: Reading, number: int) -> tuple[Support, int] | None:
        """The better of the best place so far and that of a passage, with the passage's number."""
        place = support(said, self._shelf.evidence(self._passages[number - 1]))
        if place is None or (best is not None and _rank(best[0]) >= _rank(place)):
            return best
        return place, number

    def passed(self, strict: bool) -> bool:
        """Whether nothing is claimed of a passage that does not say it; `strict` asks it of uncited sentences too."""
        return all(one.borne_out or (one.outcome == "uncited" and not strict) for one in self.found)

    def note(self, strict: bool) -> dict[str, Any]:
        """What the reader is told: the counts are of all sentences, of which there may be more than are told."""
        outcomes = [one.outcome for one in self.found]
        counts = {name: outcomes.count(name) for name in ("supported", "unsupported", "uncited")}
        return {"passed": self.passed(strict), **counts, "sentences": msgspec.to_builtins(self.found[:MOST_TOLD])}

    def corrections(self) -> list[Correction]:
        """The right number in place of a citation that names the wrong passage."""
        return [
            Correction(start=claim.marks[0].start, end=claim.marks[0].end, text=f"[{one.elsewhere}]")
            for one, claim in self._marks
            if one.elsewhere and len(claim.marks) == 1
        ][:MOST_TOLD]


def _verified(claim: Claim, best: Support | None, bearing: int) -> Verified:
    """The outcome of a sentence, by the best place in what it cites and the number of a passage that bears it out."""
    bears = best is not None and not best.fault
    outcome: Outcome = "uncited" if not claim.marks else "supported" if bears else "unsupported"
    return Verified(
        start=claim.start,
        end=claim.end,
        outcome=outcome,
        borne_out=bears,
        cites=claim.cites,
        passage=best.passage if best else "",
        span=(best.start, best.end) if best else None,
        covered=best.covered if best else 0.0,
        fault=best.fault if best else "no_such_passage",
        elsewhere=0 if bears or not claim.marks else bearing,
    )


def _rank(place: Support) -> tuple[bool, float]:
    return not place.fault, place.covered


def _bears(best: tuple[Support, int] | None) -> bool:
    return best is not None and not best[0].fault
