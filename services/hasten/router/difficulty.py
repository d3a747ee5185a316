"""Guesses how hard a request is from its words alone: a rule with chosen weights, not a measured model."""

import math
import re
from typing import NamedTuple

READ = 4000
"""Characters of the text that are searched: the kind of a task shows early, and the time stays below the budget."""
_BASE = -1.2


class Feature(NamedTuple):
    """A named hint: what it says in a reason, its weight in log-odds, and the value at which it stops counting."""

    says: str
    weight: float
    most: float


class Difficulty(NamedTuple):
    """`score` is 0 (any model will do) to 1; `features` are the contributions in log-odds; `why` names the largest.
    Not `known` is the difficulty of a text of a kind that the estimate was never measured on."""

    score: float
    features: dict[str, float]
    why: str
    known: bool = True


FEATURES = {
    "length": Feature("a long text", 0.6, 2.0),
    "questions": Feature("several questions", 0.4, 3.0),
    "steps": Feature("several steps", 0.5, 3.0),
    "reasoning": Feature("asks for reasoning", 1.2, 2.0),
    "math": Feature("calculation", 1.0, 2.0),
    "code": Feature("code", 0.8, 2.0),
    "turns": Feature("a long conversation", 0.05, 10.0),
    "lookup": Feature("asks for a fact, an extract or a label", -1.0, 1.5),
}
"""Values are counts, except `length` (hundreds of words) and `turns` (earlier turns)."""


_PATTERNS = {
    "steps": re.compile(r"\b(?:then|after that|afterwards|finally|step by step|first,)|^\s*(?:\d+[.)]|[-*])\s", re.M),
    "reasoning": re.compile(
        r"\b(?:why|explain\w*|compar\w+|prove|proof|analy[sz]e\w*|evaluat\w+|design (?:an?|the)|plan (?:an?|my|our)"
        r"|trade-?offs?|pros and cons|advantages?|argue|justify|derive|strateg\w+|recommend\w*|what if"
        r"|suppose|implications?)\b"
    ),
    "math": re.compile(
        r"\d\s*[-+*/^=<>×÷]\s*\d|\b(?:calculat\w+|comput\w+|solve|equation|integral|derivative|probabilit\w+"
        r"|percent\w*|average|theorem|how many|how much (?:will|would|in total)|in total)\b"
    ),
    "code": re.compile(
        r"```|\b(?:def|class|import|return|select)\s+\w+\s*[(:{*,]|\b(?:python|javascript|typescript|rust|sql|regex"
        r"|java|c\+\+|golang|function|algorithm|refactor|debug|stack ?trace|compiler|unit test|bug)\b"
    ),
    "lookup": re.compile(
        r"^\s*(?:what (?:is|are|was|does)|who|when|where|which|is|are|do|does|can|how (?:much|long|old|often|do i))\b"
        r"|\b(?:extract|classify|label|translate|list the|name the|sentiment|categor\w+|yes or no|true or false"
        r"|look up|define)\b"
    ),
}


def estimate(text: str, turns: int = 1) -> Difficulty:
    """The difficulty of the last user turn `text` in a conversation of `turns` turns; English words only."""
    seen = text[:READ].lower()
    values = {name: float(sum(1 for _ in pattern.finditer(seen))) for name, pattern in _PATTERNS.items()}
    values["length"] = len(text) / 600
    values["questions"] = max(0.0, seen.count("?") - 1.0)
    values["turns"] = max(0.0, turns - 1.0)
    parts = {
        name: round(feature.weight * min(values[name], feature.most), 3)
        for name, feature in FEATURES.items()
        if values[name] > 0
    }
    score = 1 / (1 + math.exp(-(_BASE + sum(parts.values()))))
    return Difficulty(round(score, 3), parts, _why(parts))


def _why(parts: dict[str, float]) -> str:
    telling = sorted((name for name in parts if abs(parts[name]) >= 0.3), key=lambda name: -abs(parts[name]))
    return ", ".join(FEATURES[name].says for name in telling[:2]) or "nothing special about it"
