"""Instructions that are said twice, in the same or in other words, and examples and paragraphs that are; pure."""

import re
from collections.abc import Iterator
from itertools import groupby

from hasten.compressor.sentences import Unit
from hasten.prompts.concept import STYLES, Concept, concept_of
from hasten.prompts.finding import Edit, Finding
from hasten.prompts.page import Page

_GENERAL = re.compile(
    r"\b(?:rules?|guidelines?|instructions?|important|styles?|tone|notes?|remember|remind(?:er|ers)?|general|formats?|output|"
    r"constraints?|requirements?|final|summary|behaviou?r|always|role|overview|policy|policies)\b",
    re.IGNORECASE,
)
_ALIKE, _WITHIN = 0.8, 0.75
_MOST = 400
"""Sentences that are compared with each other."""
_LONG_WORDS = 8
_TURN = re.compile(r"^[ \t]*\**(Q|Question|User|Human|Customer|Input)\**:\**[ \t]+", re.MULTILINE | re.IGNORECASE)


def repeated(page: Page) -> Iterator[Finding]:
    """Each sentence that says what an earlier one has said, once; and what stands there twice word by word."""
    gone: set[int] = set()
    for finding, unit in (*_blocks(page), *_examples(page)):
        gone |= unit
        yield finding
    own = [unit for unit in page.said if unit.kind != "heading" and unit.start not in gone]
    concepts = [concept_of(page.body(unit)) for unit in own[:_MOST]]
    for later in range(len(concepts)):
        for earlier in range(later):
            if own[earlier].start in gone or not same(concepts[earlier], concepts[later]):
                continue
            if not _one_scope(page, own[earlier], own[later]):
                continue
            first, second = own[earlier], own[later]
            less = concepts[later].all < concepts[earlier].all or concepts[later].all == concepts[earlier].all
            kept, extra = (first, second) if less else (second, first)
            gone.add(extra.start)
            yield _finding(page, extra, kept)
            break


def same(one: Concept, two: Concept) -> bool:
    """Whether two sentences ask for the same: equal in figures, names, polarity and conditions, alike in the rest."""
    a, b = one.all, two.all
    if (one.figures, one.names, one.negated, one.conditional) != (two.figures, two.names, two.negated, two.conditional):
        return False
    if (one.ordered or two.ordered) and one.order != two.order:
        return False
    telling = (a & b) - {"NOT", "IF", "only"}
    if not telling or ("only" in a) != ("only" in b):
        return False
    if a == b:
        return len(a) > 1 or telling <= STYLES or (one.light and two.light)
    if one.conditional:
        return False
    both, either = len(a & b), len(a | b)
    return (len(telling) >= 4 and both / either >= _ALIKE) or (
        len(telling) >= 3 and (a < b or b < a) and both / either >= _WITHIN
    )


def _one_scope(page: Page, first: Unit, second: Unit) -> bool:
    """Whether both are said of the same: not of two cases under headings or list introductions of their own."""
    for lead in (page.heading, page.intro):
        one, two = lead(first), lead(second)
        if one != two and any(other is not None and not _GENERAL.search(other.text) for other in (one, two)):
            return False
    return True


def _finding(page: Page, extra: Unit, kept: Unit) -> Finding:
    start, end = page.without(extra)
    why = f"line {page.line(kept.start)} says it: {_short(page.body(kept))}"
    return Finding(kind="repeated", start=extra.start, end=extra.end, why=why, edit=Edit(start=start, end=end))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:57] + "…"


def _blocks(page: Page) -> Iterator[tuple[Finding, set[int]]]:
    """Paragraphs, tables and code of some length that are there twice, word by word."""
    seen: dict[str, int] = {}
    for _, group in groupby(page.units, key=lambda unit: unit.block):
        units = list(group)
        start, end = units[0].start, units[-1].end
        plain = " ".join(page.text[start:end].split())
        if units[0].kind in ("heading", "header", "row", "item") or len(plain.split()) < _LONG_WORDS:
            continue
        if plain not in seen:
            seen[plain] = start
            continue
        if page.is_quoted(start, end, whole=True) and units[0].kind not in ("code", "json"):
            continue
        why = f"line {page.line(seen[plain])} says it word by word"
        edit = Edit(start=start, end=len(page.text[:end]) + (page.text[end : end + 1] == "\n"))
        yield Finding(kind="repeated", start=start, end=end, why=why, edit=edit), {unit.start for unit in units}


def _examples(page: Page) -> Iterator[tuple[Finding, set[int]]]:
    """Examples (a question with its answer) that are there twice."""
    starts = [found.start() for found in _TURN.finditer(page.text)]
    seen: dict[str, int] = {}
    for start, end in zip(starts, [*starts[1:], len(page.text)], strict=False):
        chunk = page.text[start:end].split("\n\n")[0]
        if chunk.count("\n") < 1:
            continue
        plain = " ".join(chunk.lower().split())
        if plain in seen:
            stop = start + len(chunk)
            rest = page.text[stop:]
            edit = Edit(start=start, end=stop + len(rest) - len(rest.lstrip("\n")))
            why = f"line {page.line(seen[plain])} has the same example"
            inside = {unit.start for unit in page.units if start <= unit.start < stop}
            yield Finding(kind="example", start=start, end=stop, why=why, edit=edit), inside
        seen.setdefault(plain, start)
