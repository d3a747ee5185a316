"""Instructions about what is not there: empty headings, notes to oneself, tools and examples that are missing; pure."""

import re
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from hasten.compressor.sentences import Unit
from hasten.prompts.finding import Edit, Finding
from hasten.prompts.page import Page

_TO_DO = re.compile(
    r"\b(?:TODO|TBD|FIXME|XXX)\b[^\n]*|\[(?:INSERT|YOUR|ADD|FILL IN)\b[^\]\n]*\]|<(?:INSERT|YOUR)[ _][^>\n]*>"
    r"|\blorem ipsum\b"
)
_UNFILLED = re.compile(r"\{\{[^{}\n]{1,80}\}\}|<%=?[^%\n]*%>")
_TOOLS = re.compile(
    r"\b(?:use|call|invoke)(?: one of)?(?: the| your| these)?(?: following| available| provided| given)?"
    r" (?:tools?|functions?)\b"
    r"|\b(?:tools|functions) (?:below|provided|available to you)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:if|when|not|never|without|unless)\b|n['’]t\b", re.IGNORECASE)
_EXAMPLES = re.compile(r"\b(?:examples? below|following examples?)\b", re.IGNORECASE)
_SHOWN = re.compile(r"[:：]\s*\S|\n\s*\S")


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the request that a text was sent with; nothing is (`whole` false) of a text alone."""

    whole: bool = False
    tools: bool = False
    examples: bool = False


def dead(page: Page, sent: Sent) -> Iterator[Finding]:
    """What can have no effect, or not the one that was meant."""
    for heading in empty_headings(page):
        start, end = page.without(heading)
        edit = Edit(start=start, end=end)
        yield Finding(kind="dead", start=heading.start, end=heading.end, why="a heading over nothing", edit=edit)
    for found in _TO_DO.finditer(page.text):
        if not page.is_quoted(*found.span()):
            why = "a note to whoever writes the prompt, which the model reads"
            yield Finding(kind="dead", start=found.start(), end=found.end(), why=why)
    if sent.whole:
        for found in _UNFILLED.finditer(page.text):
            if not page.is_quoted(*found.span()):
                why = "a placeholder that nothing was put into"
                yield Finding(kind="dead", start=found.start(), end=found.end(), why=why)
    for unit in page.said:
        body = page.body(unit)
        if sent.whole and not sent.tools and _TOOLS.search(body) and not _CONDITION.search(body):
            yield Finding(kind="dead", start=unit.start, end=unit.end, why="the request has no tools")
        named = _EXAMPLES.search(page.text, unit.start, unit.end)
        if named and not sent.examples and not _SHOWN.search(page.text, named.end()):
            yield Finding(kind="dead", start=unit.start, end=unit.end, why="no example follows")


def empty_headings(page: Page) -> Iterator[Unit]:
    """Headings with nothing below them; the last may be what the caller adds something to."""
    for unit, after in pairwise(page.units):
        if unit.kind == after.kind == "heading" and _level(after.text) <= _level(unit.text):
            yield unit


def _level(heading: str) -> int:
    return len(heading) - len(heading.lstrip("#"))
