"""Looks for each sentence of an answer in the passages that it cites, or in all where it cites none; pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from hasten.messages.check import Correction
from hasten.messages.retrieve import Passage
from hasten.orchestrator.verification.claim import Claim, claims
from hasten.orchestrator.verification.reading import reading
from hasten.orchestrator.verification.support import Evidence, Support, evidence_of, support

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

    def __init__(self, text: str, passages: Sequence[Passage]) -> None:
        self._text, self._passages = text, passages
        self._evidence: list[Evidence] = []
        self._marks: list[tuple[Verified, Claim]] = []
        self.found: list[Verified] = []

    def sentences(self) -> Iterator[None]:
        """Each step reads a passage or looks for a sentence."""
        for passage in self._passages:
            self._evidence.append(evidence_of(passage))
            yield
        for claim in claims(self._text):
            if (made := self._verified(claim)) is not None:
                self.found.append(made)
                self._marks.append((made, claim))
            yield

    def _verified(self, claim: Claim) -> Verified | None:
        said = reading(claim.said)
        if not claim.marks and len(said.terms) <= FEW:
            return None
        places = [support(said, one) for one in self._evidence]
        cited = [places[number - 1] for number in claim.cites if 0 < number <= len(places)]
        best = _best(cited if claim.marks else places)
        bears = best is not None and not best.fault
        other = _best(places)
        elsewhere = 1 + places.index(other) if claim.marks and not bears and other and not other.fault else 0
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
            fault=(best.fault if best else "no_such_passage") or "",
            elsewhere=elsewhere,
        )

    def passed(self, strict: bool) -> bool:
        """Whether nothing is claimed of a passage that does not say it; `strict` asks it of uncited sentences too."""
        return all(one.borne_out or (one.outcome == "uncited" and not strict) for one in self.found)

    def note(self, strict: bool) -> dict[str, Any]:
        """What the reader is told."""
        outcomes = [one.outcome for one in self.found]
        counts = {name: outcomes.count(name) for name in ("supported", "unsupported", "uncited")}
        return {"passed": self.passed(strict), **counts, "sentences": msgspec.to_builtins(self.found)}

    def corrections(self) -> list[Correction]:
        """The right number in place of a citation that names the wrong passage."""
        return [
            Correction(start=claim.marks[0].start, end=claim.marks[0].end, text=f"[{one.elsewhere}]")
            for one, claim in self._marks
            if one.elsewhere and len(claim.marks) == 1
        ]


def _best(places: Sequence[Support | None]) -> Support | None:
    known = [place for place in places if place is not None]
    return max(known, key=lambda place: (not place.fault, place.covered), default=None)
