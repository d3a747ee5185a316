"""Makes the shorter text that the edits of a review come to, and sees that nothing is lost by it; pure."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from hasten.prompts.dead import empty_headings
from hasten.prompts.finding import Edit, Finding
from hasten.prompts.kept import lost
from hasten.prompts.page import Page
from hasten.prompts.waste import EMPTY_LINES, waste

_TWICE = ("repeated", "example")


def safe(text: str, findings: Sequence[Finding]) -> list[Finding]:
    """The findings in order, without an edit where one before has changed the same place, or where something would be
    lost that is not in a duplicate: figures, negations, names, quotes, placeholders."""
    ranked = sorted(findings, key=lambda one: (one.edit is None, one.kind not in _TWICE, not _moves(one), one.start))
    taken: list[Edit] = []
    kept: list[Finding] = []
    for finding in ranked:
        edit = finding.edit
        if edit is None:
            kept.append(finding)
        elif not any(edit.start < other.end and other.start < edit.end for other in taken):
            if finding.kind not in _TWICE and _loses(text, [*taken, edit]) != _loses(text, taken):
                kept.append(msgspec.structs.replace(finding, edit=None))
                continue
            taken.append(edit)
            kept.append(finding)
        elif not any(other.start <= edit.start and edit.end <= other.end and not other.moved for other in taken):
            kept.append(msgspec.structs.replace(finding, edit=None))
    return sorted(kept, key=lambda one: (one.start, one.end))


def _moves(finding: Finding) -> bool:
    return finding.edit is not None and bool(finding.edit.moved)


def _loses(text: str, edits: Sequence[Edit]) -> Counter[str]:
    return lost(text, applied(text, edits))


def applied(text: str, edits: Sequence[Edit]) -> str:
    """The text after the edits, which do not overlap; what is moved stands at its end, in order."""
    pieces: list[str] = []
    moved: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        pieces += [text[done : edit.start], edit.text]
        done = edit.end
        if edit.moved:
            moved.append(edit.moved)
    body = "".join([*pieces, text[done:]])
    return body if not moved else body.rstrip() + "\n\n" + "\n".join(moved)


def suggested(text: str, findings: Sequence[Finding]) -> str:
    """The whole text as it is suggested; the very same text when there is nothing to suggest."""
    edits = [finding.edit for finding in findings if finding.edit is not None]
    if not edits:
        return text
    made = applied(text, edits)
    if any(edit.moved for edit in edits):
        before = {heading.text for heading in empty_headings(Page(text))}
        page = Page(made)
        emptied = [heading for heading in empty_headings(page) if heading.text not in before]
        spans = [page.without(heading) for heading in emptied]
        for start, end in reversed(spans):
            without = applied(made, [Edit(start=start, end=end)])
            made = made if lost(made, without) else without
    page = Page(made)
    made = applied(made, [one.edit for one in waste(page) if one.edit is not None and one.why == EMPTY_LINES])
    return made.strip("\n") + ("\n" if text.endswith("\n") and made.strip() else "")
