"""What a text looks like, in numbers that need no model: the features of the difficulty besides the vector; pure.

Counts are logarithms of one plus the count. Words are English ones; what is counted besides (length, numbers, symbols,
options) is the same in any language.
"""

import math
import re
from typing import NamedTuple

READ = 3000
"""Characters of the text that are read, its beginning: the kind of a task shows early, and the time stays bounded."""


class Feature(NamedTuple):
    """How a reason calls a high and a low value."""

    more: str
    less: str


FEATURES = {
    "length": Feature("a long text", "a short text"),
    "question": Feature("a long question", "a short question"),
    "options": Feature("long options to choose from", "short options, or none"),
    "choice": Feature("gives options to choose from", "gives no options to choose from"),
    "number_options": Feature("options that are numbers", "options that are no numbers"),
    "uneven_options": Feature("options of uneven length", "options of even length"),
    "numbers": Feature("many numbers", "few numbers"),
    "density": Feature("dense with numbers", "few numbers among the words"),
    "distinct": Feature("many different numbers", "few different numbers"),
    "large": Feature("large numbers", "small numbers, or none"),
    "decimals": Feature("decimals", "no decimals"),
    "symbols": Feature("formulas", "no formulas"),
    "calculation": Feature("asks for calculation", "no calculation"),
    "percent": Feature("percentages", "no percentages"),
    "fractions": Feature("fractions or multiples", "no fractions"),
    "negation": Feature("negations or exceptions", "no negation"),
    "conditions": Feature("conditions to reason from", "no conditions"),
    "statements": Feature("numbered statements to judge", "no numbered statements"),
    "code": Feature("code", "no code"),
    "reasoning": Feature("asks for reasoning or a choice among these", "does not ask for reasoning"),
    "case": Feature("a medical case", "no medical case"),
    "blank": Feature("a blank to fill in", "no blank to fill in"),
    "asks": Feature("several questions", "no question mark"),
    "sentences": Feature("many sentences", "few sentences"),
    "sentence_length": Feature("long sentences", "short sentences"),
    "word_length": Feature("long words", "short words"),
    "long_words": Feature("many long words", "few long words"),
    "capitals": Feature("many capitals or names", "few names"),
    "variety": Feature("many different words", "repeats its words"),
    "quotes": Feature("quotations", "no quotation"),
    "foreign": Feature("unusual letters or signs", "plain letters"),
}
"""Every feature, in the order of the artefact."""

_WORDS = {
    "calculation": "calculate calculated calculation compute computed solve many much far average mean total sum "
    "ratio probability times twice half third quarter per rate each every more less remaining left difference fraction "
    "double triple percent percentage",
    "fractions": "half third quarter fraction twice double triple",
    "negation": "not never except least incorrect false cannot neither none",
    "conditions": "if then suppose assume given let because therefore since implies unless would",
    "code": "int void return def class for while function print array algorithm program",
    "reasoning": "why explain explains explained compare compares comparing prove proof analyse analyze analysis "
    "evaluate best describes likely following",
    "case": "patient mg old",
}
"""The words that each of these features counts."""
_LISTS = {name: frozenset(words.split()) for name, words in _WORDS.items()}
_COUNTS = {word: [name for name in _LISTS if word in _LISTS[name]] for word in frozenset().union(*_LISTS.values())}
_SIGNS = {"percent": ("%", "percent"), "asks": ("?",), "quotes": ('"', "“")}
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_OPTION = re.compile(r"\n[ \t]{0,4}\(?[A-H][.)][ \t]([^\n]*)")
_NUMBER_OPTION = re.compile(r"[^\w]{0,4}\d")
_END = re.compile(r"[.!?](?:\s|$)")
_SYMBOL = re.compile(r"[=+*/^<>×÷√≤≥∑∫π\\]")
_BRACE = re.compile(r"[{};]")
_STATEMENT = re.compile(r"statement \d|\bi{1,3}[.,)]")
_TRAILER = "Answer:"


def surface(text: str) -> list[float]:
    """The values of FEATURES, in their order; READ characters are read, `length` counts them all."""
    seen = text[:READ].strip().removesuffix(_TRAILER)
    lower = seen.lower()
    words, numbers, options = _WORD.findall(seen), _NUMBER.findall(seen), _OPTION.findall(seen)
    lowered = _WORD.findall(lower)
    question = _OPTION.sub("", seen).strip() if options else seen
    sentences, many = max(1, len(_END.findall(question))), max(1, len(words))
    sizes = [len(option) for option in options]
    counts = dict.fromkeys(_WORDS, 0)
    for word in lowered:
        for name in _COUNTS.get(word, ()):
            counts[name] += 1
    counts["code"] += len(_BRACE.findall(seen))
    counts |= {name: sum(map(lower.count, signs)) for name, signs in _SIGNS.items()}
    counts["decimals"] = sum("." in number for number in numbers)
    counts["symbols"] = len(_SYMBOL.findall(seen))
    counts["statements"] = len(_STATEMENT.findall(lower))
    values = {name: math.log1p(count) for name, count in counts.items()}
    values |= {
        "length": math.log1p(max(len(seen), len(text) - READ)),
        "question": math.log1p(len(question)),
        "options": math.log1p(_mean(sizes)),
        "choice": float(bool(options)),
        "number_options": float(2 * sum(bool(_NUMBER_OPTION.match(one)) for one in options) >= max(1, len(options))),
        "uneven_options": _spread(sizes) / (1 + _mean(sizes)),
        "numbers": math.log1p(len(numbers)),
        "density": len(numbers) / many,
        "distinct": math.log1p(len(set(numbers))),
        "large": math.log1p(max((len(one) for one in numbers), default=0)),
        "blank": float("__" in seen),
        "sentences": math.log1p(sentences),
        "sentence_length": math.log1p(len(question) / sentences),
        "word_length": sum(map(len, words)) / many,
        "long_words": sum(len(word) > 8 for word in words) / many,
        "capitals": sum(word[0].isupper() for word in words) / many,
        "variety": len(set(lowered)) / many**0.8,
        "foreign": (len(seen) - len(seen.encode("ascii", "ignore"))) / max(1, len(seen)),
    }
    return [values[name] for name in FEATURES]


def _mean(sizes: list[int]) -> float:
    return sum(sizes) / max(1, len(sizes))


def _spread(sizes: list[int]) -> float:
    middle = _mean(sizes)
    return math.sqrt(sum((size - middle) ** 2 for size in sizes) / max(1, len(sizes)))
