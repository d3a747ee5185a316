"""What changes with each request and stands before what does not: engines compute everything behind it anew; pure.

A date is not volatile for being a date ("prices since 1 March 2026"): it is when the text says that it is now.
"""

import re
from collections.abc import Iterator

import msgspec

from hasten.compressor.sentences import Unit
from hasten.prompts.finding import Edit, Finding
from hasten.prompts.page import MARKER, Page

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)"
)
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_DAY = (
    rf"(?:{_WEEKDAY},? )?(?:the )?(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}|"
    rf"\d{{1,2}}(?:st|nd|rd|th)?\.? (?:of )?{_MONTH},?(?: \d{{4}})?|"
    rf"{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?|{_WEEKDAY})"
)
_TIME = r"\d{1,2}:\d{2}(?::\d{2})?(?: ?[ap]\.?m\.?)?(?: ?(?:UTC|GMT|CES?T|Z))?"
_HOLE = r"(?:\{\{[^{}\n]*\}\}|\$?\{[^{}\n]*\}|<%[^%\n]*%>|%\(\w+\)s)"
_WHEN = rf"(?:{_DAY}|{_TIME}|\b\d{{10}}(?:\d{{3}})?\b)"
_PERSON = r"(?:user|customer|client|caller|patient|student|visitor|guest|member|subscriber)"
_STAMP = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?"
_UUID = r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
_LABELLED = (
    r"session|request|trace|conversation|thread|correlation|chat|message|run|call|ticket|order|case|transaction|account|"
    rf"device|employee|{_PERSON}"
)
_ID = (
    rf"(?i:\b(?:{_LABELLED})(?:'s|’s)?[ _-]?(?:id|token|key|number|no\.|nonce|reference)\s*(?:[:=#]|is)\s*#?)"
    r"(?=[\w-]*\d)[\w-]{3,}"
)
_NAME = r"[A-Z][\w'’-]+(?: [A-Z][\w.'’-]+){0,3}"
_ENDS = r"(?=[.,;()\n]|$| who| from| and)"
_NOW = (
    r"(?:today|now|currently|(?:today['’]s|current|present) (?:date|day|time|datetime|timestamp|date and time|year|"
    r"month)|(?:the )?(?:date|time) (?:now|today)|the (?:date|time)|local time|system time|it(?! is \w+day\b))"
)
_FACTS = r"location|time ?zone|ip(?: address)?|city|country|locale|balance|age|birthday|email|phone|plan|tier|role"

_TO_THE_USER = "put it into the last user turn, or at the end of this text"
_LEAVE_OUT = "leave it out: the model needs no id, and a log can have it"
_DATE, _POINT, _WHO = "the present date or time", "a point in time", "a person's name"
_RULES: tuple[tuple[str, str, str], ...] = (
    (
        rf"(?i:\b{_NOW}(?: now| today| currently| here)? ?(?:is|:|=)(?: now| currently)? ?"
        rf"(?:approximately |about )?{_WHEN})",
        _DATE,
        _TO_THE_USER,
    ),
    (
        r"(?im:^[ \t#*-]*(?:current |local |system )?(?:date|time|datetime|timestamp|date/time|now|today)\**[ ]?[:=]\**"
        rf"[ ]?{_WHEN})",
        _DATE,
        _TO_THE_USER,
    ),
    (_STAMP, _POINT, _TO_THE_USER),
    (r"(?m:^\[?\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}\]?)", _POINT, _TO_THE_USER),
    (rf"(?i:{_UUID})", "an id", _LEAVE_OUT),
    (
        r"(?i:\b(?:nonce|random (?:seed|number|token|id|string)|salt)\b ?(?:[:=]|is) ?)(?=[\w-]*\d)[\w-]{2,}",
        "a random value",
        "leave it out",
    ),
    (_ID, "an id", "leave it out, or put it into the last user turn if tools need it"),
    (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{20,}\b", "an id or a hash", "leave it out"),
    (
        rf"(?i:\b(?:the |your |current )?{_PERSON}(?:['’]s)? (?:full |first |last |user ?)?name(?: is|:| =) ?){_NAME}",
        _WHO,
        _TO_THE_USER,
    ),
    (rf"(?i:\b(?:the|this|your|current) {_PERSON} is (?:called |named )?){_NAME}{_ENDS}", _WHO, _TO_THE_USER),
    (rf"(?im:^[ \t*-]*(?:current )?{_PERSON}\**:\** ?){_NAME}[ \t]*(?:\(|,|$)", _WHO, _TO_THE_USER),
    (
        r"(?i:\byou are (?:now |currently )?(?:talking|speaking|chatting) (?:to|with) (?:(?:mr|mrs|ms|dr)\.? )?)"
        rf"{_NAME}{_ENDS}",
        _WHO,
        _TO_THE_USER,
    ),
    (
        rf"(?i:\b{_PERSON}(?:['’]s)?[ _-](?:{_FACTS})(?: is|:| =) ?)(?=[^\n]{{0,40}}[\dA-Z@])\S+",
        "a fact about one person",
        _TO_THE_USER,
    ),
    (r"(?i:\b(?:client |remote )?ip(?: address)?(?: is|:| =) ?)\d{1,3}(?:\.\d{1,3}){3}", "an address", "leave it out"),
)
_VALUES = [(re.compile(pattern), what, advice) for pattern, what, advice in _RULES]
_HOLES = re.compile(_HOLE + r"|\[[A-Z][A-Z_ ]{2,30}\]|\{%[^%\n]*%\}")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_CHANGING = {
    _DATE: "date time now today timestamp datetime day weekday year month clock tomorrow yesterday",
    "an id": "uuid guid id nonce random session request trace conversation thread correlation seed",
    "about one person": "user username name customer client person email phone location city ip timezone locale "
    "balance account profile memory memories preferences age gender birthday firstname lastname member patient student",
    "the question": "question query input message prompt text utterance ask problem",
    "what was found or said": "context document documents docs passage passages chunk chunks history chat transcript "
    "results result retrieved search snippets article articles summary knowledge ticket order cart page content",
}
_WHICH = {word: what for what, words in _CHANGING.items() for word in words.split()}
_FIXED = """company product brand bot assistant agent business org organization organisation tenant app application site
website store shop support team model max min limit format style tone language lang persona schema rules policy policies
instructions guidelines tools examples example version env environment domain role type title template currency"""
_STEADY = frozenset(_FIXED.split())
_ADVICE = {
    _DATE: _TO_THE_USER,
    "an id": _LEAVE_OUT,
    "about one person": _TO_THE_USER,
    "the question": "it is the user's turn: send it as one",
    "what was found or said": "put it before the question in the last user turn, or send earlier turns as turns",
}
_FORM = re.compile(
    r"\b(?:formats?|formatted|templates?|such as|like this|in the form|pattern|as follows|e\.g\.|for example|example|"
    r"looks? like|placeholders?|syntax|variables?|written as|reply with|respond with|schema|replace)\b",
    re.IGNORECASE,
)
_KNOWLEDGE = re.compile(
    r"\b(?:if|when|whenever|unless|cut-?off|since|until|founded|effective|valid|version|as of|updated|released|"
    r"published)\b",
    re.IGNORECASE,
)
LEAST_BEHIND = 32
"""Fewer tokens behind it are no loss to speak of: engines keep whole blocks of 16 tokens or more."""


def volatile(page: Page, *, template: bool) -> Iterator[Finding]:
    """Everything that changes; the first in a sentence moves it as a whole. The placeholders of a `template` are judged
    by their names; what `after` is, is for the caller to count."""
    for unit in page.units:
        if unit.kind in ("code", "json") or page.is_quoted(unit.start, unit.end, whole=True):
            continue
        found = [*_values(page, unit), *(_placeholders(page, unit) if template else ())]
        if found:
            first, *others = sorted(found, key=lambda one: one.start)
            yield msgspec.structs.replace(first, edit=_moved(page, unit))
            yield from others


def _values(page: Page, unit: Unit) -> Iterator[Finding]:
    taken: list[tuple[int, int]] = []
    for pattern, what, advice in _VALUES:
        for found in pattern.finditer(page.text, unit.start, unit.end):
            before = page.text[unit.start : found.start()]
            steady = _FORM.search(before) or (what in (_DATE, _POINT) and _KNOWLEDGE.search(before))
            if steady or page.is_quoted(*found.span()):
                continue
            if any(start < found.end() and found.start() < end for start, end in taken):
                continue
            taken.append(found.span())
            yield Finding(kind="volatile", start=found.start(), end=found.end(), why=f"{what}: {advice}")


def _placeholders(page: Page, unit: Unit) -> Iterator[Finding]:
    text = page.text
    for found in _HOLES.finditer(text, unit.start, unit.end):
        hole = found[0]
        single = hole.startswith("{") and not hole.startswith(("{{", "{%"))
        beside = text[max(0, found.start() - 1) : found.start()] + text[found.end() : found.end() + 1]
        in_a_path = "/" in beside or '"' in beside
        if single and (in_a_path or len(hole) > 40 or _FORM.search(text[unit.start : found.start()])):
            continue
        if hole.startswith("[") and (text[found.end() : found.end() + 1] == "(" or _FORM.search(unit.text)):
            continue
        if page.is_quoted(*found.span()):
            continue
        what = changing(hole)
        if what:
            yield Finding(kind="placeholder", start=found.start(), end=found.end(), why=f"{what}: {_ADVICE[what]}")


def changing(hole: str) -> str:
    """What a placeholder stands for that changes with each request, by its name; empty when nothing says so."""
    words = [word.lower() for word in _WORD.findall(hole)]
    if not words or set(words) & _STEADY or hole.strip("{}% ").startswith(("end", "else", "#", "/")):
        return ""
    return next((_WHICH[word] for word in words if word in _WHICH), "")


def _moved(page: Page, unit: Unit) -> Edit | None:
    """The whole sentence goes to the end; a row of a table, which means nothing elsewhere, stays."""
    if unit.kind in ("row", "header", "heading"):
        return None
    start, end = page.without(unit)
    return Edit(start=start, end=end, moved=MARKER.sub("", unit.text, count=1) if unit.kind == "item" else unit.text)
