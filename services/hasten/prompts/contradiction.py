"""Instructions of one prompt that no answer can follow both; pure. Exceptions and conditions are not judged."""

import re
from collections.abc import Iterator

from hasten.prompts.concept import LIGHT, NUMBERS, Concept, concept_of
from hasten.prompts.finding import Finding
from hasten.prompts.page import Page
from hasten.prompts.repetition import _one_scope

_NAMES = """english german french spanish italian dutch portuguese polish turkish russian ukrainian chinese mandarin
japanese korean arabic hindi swedish danish norwegian finnish czech greek hebrew"""
_LANGUAGES = frozenset(one for name in _NAMES.split() for one in concept_of(name).all)
_LIMIT = re.compile(
    r"\b(at most|no more than|not more than|maximum of|a maximum of|up to|under|fewer than|less than|within|exactly|in|"
    r"at least|no fewer than|minimum of)\s+(\d+|one|two|three|four|five|six|seven|eight|nine|ten)\s+"
    r"(words?|sentences?|paragraphs?|characters?|bullet points?|bullets|lines?|tokens?|pages?)\b",
    re.IGNORECASE,
)
_NUMBERS = {word: at for at, word in enumerate(NUMBERS)}
_LIMITING = "answer short most more maximum up under few less within least exact limit NOT minimum max than length"
_ABOUT_LIMITS = concept_of(_LIMITING).all | LIGHT
_FORMATS = {
    "json": "JSON",
    "markdown": "Markdown",
    "html": "HTML",
    "xml": "XML",
    "yaml": "YAML",
    "bullet": "Markdown",
    "tabl": "Markdown",
}


def contradictions(page: Page) -> Iterator[Finding]:
    """Each sentence that an earlier one forbids, both without a condition; which one holds is for a person to say."""
    own = [unit for unit in page.said if unit.kind != "heading"]
    said = [(unit, page.body(unit)) for unit in own]
    known = [(unit, text, concept_of(text)) for unit, text in said]
    settled = [(unit, text, concept) for unit, text, concept in known if not concept.conditional]
    for later in range(len(settled)):
        for earlier in range(later):
            unit, text, concept = settled[later]
            other, before, told = settled[earlier]
            why = against(before, told, text, concept)
            if why and _one_scope(page, other, unit):
                where = f"line {page.line(other.start)} says otherwise ({why}): {' '.join(before.split())[:80]}"
                yield Finding(kind="contradiction", start=unit.start, end=unit.end, why=where)
                break


def against(one: str, first: Concept, two: str, second: Concept) -> str:
    """What two sentences disagree in, empty when they do not."""
    a, b = first.positive, second.positive
    if (
        a == b
        and a - {"only"}
        and first.negated != second.negated
        and first.names == second.names
        and not first.ordered
    ):
        return "to do it or not"
    if not first.negated and not second.negated:
        for left, right in ((a, b), (b, a)):
            if left <= {"short"} and left and right <= {"long", "answer"} and "long" in right:
                return "short or long"
        one_tongue, other_tongue = _tongue(a), _tongue(b)
        if one_tongue and other_tongue and one_tongue != other_tongue:
            return "language"
        if clash := _formats(first, second):
            return clash
    return _limits(one, first, two, second)


def _tongue(concepts: frozenset[str]) -> str:
    rest = concepts - {"only", "answer"}
    return next(iter(rest)) if len(rest) == 1 and rest <= _LANGUAGES else ""


def _formats(first: Concept, second: Concept) -> str:
    """One sentence allows a single format only, the other wants one that it is not."""
    for only, other in ((first.all, second.all), (second.all, first.all)):
        one, two = only & _FORMATS.keys(), other & _FORMATS.keys()
        strict = "only" in only and only <= {"only", "answer", "valid", "object", "format", *one}
        loose = other <= {"answer", "format", "use", "heading", "headings", "emphasi", "list", "bold", "only", *two}
        if strict and len(one) == 1 and two and loose:
            left, right = _FORMATS[next(iter(one))], {_FORMATS[name] for name in two}
            if left not in right:
                return f"{left} or {' and '.join(sorted(right))}"
    return ""


def _limits(one: str, first: Concept, two: str, second: Concept) -> str:
    a, b = _limit(one, first), _limit(two, second)
    if a is None or b is None or a[2] != b[2]:
        return ""
    (low, high, unit), (least, most, _) = a, b
    impossible = low > most or least > high
    unclear = high != most and high < 10**6 and most < 10**6 and low == least == 0
    return f"how many {unit}s" if impossible or unclear else ""


def _limit(text: str, concept: Concept) -> tuple[int, int, str] | None:
    """The least and the most of a unit that an answer may have; None where the sentence is about anything else."""
    found = _LIMIT.findall(text)
    if len(found) != 1:
        return None
    kind, number, unit = (part.lower() for part in found[0])
    count = _NUMBERS[number] if number in _NUMBERS else int(number)
    unit = re.sub(r"bullets?(?: points?)?", "bullet", unit).removesuffix("s")
    rest = {one for one in concept.all if not one.isdigit()} - _ABOUT_LIMITS
    if any(not one.startswith(unit[:4]) for one in rest):
        return None
    if kind in ("at least", "no fewer than", "minimum of"):
        return count, 10**9, unit
    if kind in ("exactly", "in"):
        return count, count, unit
    return 0, count, unit
