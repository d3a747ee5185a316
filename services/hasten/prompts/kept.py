"""What a suggestion must not lose: figures, negations, names, codes, quotes and placeholders; pure."""

import re
from collections import Counter

_FIGURE = re.compile(r"\d+(?:[.,:/-]\d+)*%?")
_NEGATION = re.compile(
    r"\b(?:not|never|no|none|nor|neither|without|except|unless|cannot|only|\w+n['’]t)\b", re.IGNORECASE
)
_NAME = re.compile(
    r"(?<![.!?:\n] )(?<!^)(?<=\s)[A-Z]\w+|\b\w*[a-z][A-Z]\w*\b|\b\w*[A-Z]\w*\d\w*\b|\b\w*\d\w*[A-Z]\w*\b|\b[A-Z]{2,}\b",
    re.MULTILINE,
)
_MARK = re.compile(r"^[ \t]*(?:[-*+•]|#{1,6}|\d{1,3}[.)])[ \t]+", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{\{[^{}\n]*\}\}|\$?\{[^{}\n]*\}|<%.*?%>|%\(\w+\)s")
_CITED = re.compile(r"`[^`\n]+`|\"[^\"\n]+\"|“[^”\n]+”|https?://\S+|\S+@\S+\.\w+")
_NO_NAMES = frozenset({"AI", "I", "LLM", "NOT", "ALL", "ALWAYS", "NEVER", "MUST", "IMPORTANT", "PLEASE", "DO"})


def facts(text: str) -> Counter[str]:
    """What of a text is a figure, a negation, a name, a quote or a placeholder, with how often it is there."""
    text = _MARK.sub("", text)
    found = Counter(one.group().lower() for one in _NEGATION.finditer(text))
    for pattern in (_FIGURE, _PLACEHOLDER, _CITED):
        found.update(one.group() for one in pattern.finditer(text))
    found.update(one.group() for one in _NAME.finditer(text) if one.group() not in _NO_NAMES)
    return found


def lost(before: str, after: str) -> Counter[str]:
    """What `before` has more often than `after`. Case is not heeded: sentences begin with a capital."""
    low, high = before.lower(), after.lower()
    missing = Counter[str]()
    for fact in {fact.lower() for fact in facts(before)}:
        pattern = re.compile(rf"(?<!\w){re.escape(fact)}(?!\w)")
        gone = len(pattern.findall(low)) - len(pattern.findall(high))
        if gone > 0:
            missing[fact] = gone
    return missing
