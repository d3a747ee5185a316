"""White space and decoration that cost tokens and say nothing; pure."""

import re
from collections.abc import Iterator

from hasten.prompts.finding import Edit, Finding
from hasten.prompts.page import Page

EMPTY_LINES = "empty lines: one is enough"
_RULES: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"\n[ \t]*(?:\n[ \t]*){2,}(?=\S)"), "\n\n", EMPTY_LINES),
    (re.compile(r"[ \t]{2,}$", re.MULTILINE), "", "spaces at the end of a line"),
    (re.compile(r"(?<=\S)[ \t]{3,}(?=\S)"), " ", "spaces in a row"),
    (re.compile(r"^[ \t]*[=\-*_#~+]{8,}[ \t]*\n", re.MULTILINE), "", "a line of signs"),
    (re.compile(r"<!--.*?-->[ \t]*\n?", re.DOTALL), "", "a comment, which the model reads as well"),
    (re.compile(r"([!?])\1{2,}"), r"\1", "signs in a row"),
    (re.compile(r"[\u200b\u2060\ufeff\u00ad]+"), "", "characters without a shape"),
)


def waste(page: Page) -> Iterator[Finding]:
    """What can go without a word being touched; never in code, and no white space of tables."""
    kept = [(unit.start, unit.end) for unit in page.units if unit.kind in ("code", "json", "row", "header")]
    for pattern, text, why in _RULES:
        for found in pattern.finditer(page.text):
            if any(start < found.end() and found.start() < end for start, end in kept):
                continue
            edit = Edit(start=found.start(), end=found.end(), text=found.expand(text))
            yield Finding(kind="whitespace", start=found.start(), end=found.end(), why=why, edit=edit)
