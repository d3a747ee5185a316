"""Politeness, filler and preambles: words that a model does not need, and what says the same without them; pure."""

import re
from collections.abc import Iterator

from hasten.prompts.finding import Edit, Finding
from hasten.prompts.kept import lost
from hasten.prompts.page import Page

_KIND = (
    r"(?:very |highly |extremely )?(?:helpful|honest|harmless|friendly|polite|knowledgeable|professional|smart|"
    r"intelligent|capable|advanced|powerful|useful|reliable|expert|skilled|conversational|virtual|digital|large|great|"
    r"good|AI|artificial intelligence)"
)
_PREAMBLE = re.compile(
    rf"You(?: are|'re|’re|r role is to be| will act as| act as) (?:a|an|the) (?:{_KIND},? (?:and |but )?)*"
    r"(?:AI )?(?:assistant|chat ?bot|bot|language model|AI|model)"
    r"(?:,? (?:that|which|who)(?: is(?: always)? (?:happy|ready|eager|here) to| can| will| always)? "
    r"(?:helps?|assists?|answers?|supports?)(?: (?:the |your )?(?:users?|people|customers?|humans?|others))?"
    r"(?:,? (?:with|to|in)? ?(?:their|any|all|all their|any of their|the user's|users')? ?"
    r"(?:questions?|queries|requests?|needs|tasks|problems))?)?"
    r"(?:,? (?:designed|built|created|made|here|trained) to (?:be helpful|help|assist)"
    r"(?: (?:the )?(?:users?|people|customers?))?"
    r"(?: with (?:their|any|all) (?:questions?|requests?|needs|tasks))?)?[.!]?",
    re.IGNORECASE,
)
_EMPTY = re.compile(
    r"(?:Thank you|Thanks|Many thanks)(?: (?:very|so) much)?"
    r"(?: (?:in advance|for your (?:help|time|cooperation|understanding|attention)))*[.!]*"
    r"|(?:Good luck|Have fun|You can do (?:it|this)|You(?:'ve| have) got this|(?:Do|Try) your (?:very )?best)[.!]*"
    r"|(?:This|It) is (?:very |really |extremely )?important(?: (?:to|for) (?:me|us|my career))?[.!]*"
    r"|(?:I hope (?:that )?(?:this|it) (?:helps|is clear|makes sense))[.!]*"
    r"|(?:Let me know if you have any (?:further )?questions)[.!]*",
    re.IGNORECASE,
)
_IMPORTANT = (
    r"(?:it is|it's|it’s) (?:very |really |extremely |absolutely )?"
    r"(?:important|essential|crucial|critical|vital|imperative)"
)
_FIRST: tuple[tuple[str, str], ...] = (
    (rf"(?:please )?{_IMPORTANT} (?:to (?:note|remember|keep in mind) that|to always|that you always) ", "always?"),
    (rf"(?:please )?{_IMPORTANT} that you are (?=\w)", "Be "),
    (rf"(?:please )?{_IMPORTANT} (?:for you to|to|that you) (?=\w)", ""),
    (r"(?:please )?(?:make sure|be sure|ensure) (?:that )?(?:you are|to be) (?=\w)", "Be "),
    (r"(?:please )?(?:make sure|be sure|ensure) (?:that )?(?:you|to) (?=\w)", ""),
    (r"(?:please )?(?:note|be aware|keep in mind|bear in mind|remember) that ", ""),
    (r"(?:please )?(?:always )?remember to (?=\w)", ""),
    (r"(?:I (?:want|would like|need)|I'd like|we (?:want|would like|need)|we'd like) you to (?=\w)", ""),
    (r"as an? (?:AI|artificial intelligence)(?: language model| assistant| model)?,? (?=you\b|your\b)", ""),
    (r"please,? (?=\w)", ""),
    (r"kindly (?=\w)", ""),
    (r"feel free to (?=\w)", "You may "),
)
_ANYWHERE: tuple[tuple[str, str], ...] = (
    (r",? please(?=[.!,;]|$)", ""),
    (r"(?<=\w) please(?= \w)", ""),
    (r"\bin order to\b", "to"),
    (r"\bdue to the fact that\b", "because"),
    (r"\bin the event that\b", "if"),
    (r"\bfor the purpose of\b", "for"),
    (r"\bat this point in time\b", "now"),
    (r"\b(?:with|in) regards? to\b", "about"),
    (r"\ba large number of\b", "many"),
    (r"\beach and every\b", "every"),
    (r"\bfirst and foremost\b,? ?", "first "),
    (r",? to the best of your (?:ability|abilities)\b", ""),
)
_AT_FIRST = [(re.compile(pattern, re.IGNORECASE), text) for pattern, text in _FIRST]
_INSIDE = [(re.compile(pattern, re.IGNORECASE), text) for pattern, text in _ANYWHERE]


def fillers(page: Page) -> Iterator[Finding]:
    """Preambles and empty sentences as a whole, and words of others that can go; never in quotes, code or examples."""
    for unit in page.said:
        if unit.kind == "heading" or page.is_quoted(unit.start, unit.end, whole=True):
            continue
        body = page.body(unit)
        if _PREAMBLE.fullmatch(body):
            why = "every model takes this for granted: say what is special about this one, or nothing"
            yield _whole(page, unit.start, unit.end, page.without(unit), "preamble", why)
        elif _EMPTY.fullmatch(body):
            yield _whole(page, unit.start, unit.end, page.without(unit), "filler", "it asks for nothing")
        else:
            yield from _words(page, unit.end - len(body), unit.end)


def _whole(page: Page, start: int, end: int, span: tuple[int, int], kind: str, why: str) -> Finding:
    assert kind in ("preamble", "filler")
    return Finding(kind=kind, start=start, end=end, why=why, edit=Edit(start=span[0], end=span[1]))  # type: ignore[arg-type]


def _words(page: Page, start: int, end: int) -> Iterator[Finding]:
    at, said = _opening(page, start, end)
    if at > start and (finding := _shorter(page, start, at, said, first=True)):
        yield finding
    for pattern, text in _INSIDE:
        for found in pattern.finditer(page.text, at, end):
            if finding := _shorter(page, found.start(), found.end(), text, first=found.start() == start):
                yield finding


def _opening(page: Page, start: int, end: int) -> tuple[int, str]:
    """Where the words that can go at the start of a sentence end, and what is said instead of them."""
    at, said = start, ""
    while not said:
        found = next(((one, text) for pattern, text in _AT_FIRST if (one := pattern.match(page.text, at, end))), None)
        if found is None:
            break
        at, said = found[0].end(), found[1]
        if said == "always?":
            said = "Always " if "always" in found[0][0].lower() else ""
    return at, said


def _shorter(page: Page, start: int, end: int, text: str, *, first: bool) -> Finding | None:
    """The finding that says `text` instead; None in a quote, or where something would be lost."""
    before = page.text[start:end]
    if page.is_quoted(start, end) or lost(" " + before.lower(), " " + text.lower()):
        return None
    after = page.text[end : end + 1]
    stop = end
    if first and not text and after.isalpha() and after.islower() and before[:1].isupper():
        text, stop = after.upper(), end + 1
    elif first and text:
        text = text[:1].upper() + text[1:] if before[:1].isupper() else text[:1].lower() + text[1:]
    why = f"{text.strip()!r} says the same" if text and stop == end else "the sentence says the same without it"
    return Finding(kind="filler", start=start, end=end, why=why, edit=Edit(start=start, end=stop, text=text))
