"""What can be said of a request without a model: named rules, of which the first that holds counts; pure.

A rule bounds the difficulty (0: any model will do, 1: the best is needed) and may name capabilities that would help.
The firm rules go before the estimate; the others stand in for it where it does not know the kind of text. Their bounds
are chosen, not measured: below 0.4 a small model is good enough, from 0.4 on a better one is wanted (`floors` in the
settings). Words are looked for in English and, where that is cheap, in a dozen other languages.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hasten.router.language import foreign

READ = 2000
"""Characters of the text that are searched, from its beginning."""
LONG_TOKENS = 6000
"""Prompt tokens from which a context counts as long: small models lose the thread well before their window ends."""
_TURNS = 10
_WORD = re.compile(r"[^\W\d_]+")


class Asked(NamedTuple):
    """What the rules look at: the beginning of the last user turn in lower case, its words in order and as a set, and
    the needs and sizes of the request."""

    text: str
    words: Sequence[str]
    told: frozenset[str]
    needs: Sequence[str] = ()
    prompt_tokens: int = 0
    turns: int = 1


class Rule(NamedTuple):
    """A rule. `says` is its place in the reason; the difficulty is kept within `least` and `most`; of models that are
    good enough, those with the capabilities `prefers` go first."""

    name: str
    says: str
    holds: Callable[[Asked], bool]
    least: float = 0.0
    most: float = 1.0
    prefers: tuple[str, ...] = ()

    def bound(self, score: float) -> float:
        """The score within the bounds."""
        return min(max(score, self.least), self.most)


class _Signs(NamedTuple):
    """Words, and phrases anywhere in the text (for scripts without spaces, and for signs)."""

    words: frozenset[str]
    phrases: tuple[str, ...]

    def seen(self, asked: Asked) -> bool:
        return not self.words.isdisjoint(asked.told) or any(phrase in asked.text for phrase in self.phrases)

    def leads(self, asked: Asked) -> bool:
        """Whether the text begins with one of the words, politeness aside, or has one of the phrases."""
        opening = next((word for word in asked.words[:8] if word not in _POLITE), "")
        return opening in self.words or any(phrase in asked.text for phrase in self.phrases)


def _signs(words: str, *phrases: str) -> _Signs:
    return _Signs(frozenset(words.split()), phrases)


_POLITE = frozenset(
    _signs("please kindly can could would you bitte s il te vous plait plaît por favor per favore").words
)
_EXTRACT = _signs(
    """extract extrahiere extrahieren extrais extrayez extraire extrae extraiga extraer estrai estrarre extraia extrair
    ekstraher uttrekk wyodrębnij wypisz извлеки извлечь извлеките выпиши استخرج""",
    *("提取", "抽取", "抽出", "抜き出", "추출", "pull out the", "copy out the"),
)
_CLASSIFY = _signs(
    """classify categorize categorise label klassifiziere klassifizieren kategorisiere classe classez classifie
    classifiez classifier clasifica clasificar clasifique classifica classificare klassifiser klassificer klassificera
    sklasyfikuj классифицируй классифицируйте صنف""",
    *(
        "分类",
        "分類",
        "분류",
        "yes or no?",
        "answer yes or no",
        "true or false?",
        "positive or negative",
        "sentiment of",
    ),
)
_REASON = _signs(
    """why explain compare contrast prove proof analyze analyse evaluate critique tradeoff tradeoffs justify derive
    implications strategy argue recommend warum weshalb erkläre erklären erklär vergleiche vergleichen begründe
    pourquoi explique expliquez expliquer comparez comparer démontrez explica explicar demuestra compara comparar perché
    spiega confronta dimostra hvorfor forklar sammenlign varför förklara waarom vergelijk dlaczego wyjaśnij porównaj
    почему объясни объясните сравни сравните докажи لماذا اشرح قارن""",
    *("trade-off", "pros and cons", "what if", "design a", "plan a", "por qué", "leg uit", "por que "),
    *("为什么", "解释", "比较", "证明", "なぜ", "説明し", "比較し", "왜 ", "설명해", "비교해"),
)
_CODE = _signs(
    """python javascript typescript rust golang sql regex java bash kotlin haskell refactor debug stacktrace compiler
    traceback segfault""",
    *("```", "c++", "unit test", "stack trace", "#include", "def ", "();"),
)


def _extracts(asked: Asked) -> bool:
    return _EXTRACT.leads(asked) and not _REASON.seen(asked)


def _classifies(asked: Asked) -> bool:
    return _CLASSIFY.leads(asked) and not _REASON.seen(asked)


FIRM = (
    Rule("tools", "may call tools", lambda asked: "tools" in asked.needs, least=0.5),
    Rule("long_context", "a long context", lambda asked: asked.prompt_tokens >= LONG_TOKENS, least=0.5),
    Rule("extraction", "asks for an extract", _extracts, most=0.2),
    Rule("classification", "asks for a label", _classifies, most=0.2),
    Rule(
        "language",
        "in another language than English",
        lambda asked: foreign(asked.words),
        least=0.5,
        prefers=("multilingual",),
    ),
)
"""They hold whatever the estimate says."""
HINTS = (
    Rule("reasoning", "asks for reasoning", _REASON.seen, least=0.6),
    Rule("code", "code", _CODE.seen, least=0.6),
    Rule("conversation", "a long conversation", lambda asked: asked.turns >= _TURNS, least=0.4),
)
"""They are asked where there is no estimate. Calculation and lists of steps are none: on public questions with them a
strong model gained no more than on others (docs/routing-quality.md)."""


def first(rules: Sequence[Rule], asked: Asked) -> Rule | None:
    """The first of the rules that holds."""
    return next((rule for rule in rules if rule.holds(asked)), None)


def asked(text: str, needs: Sequence[str] = (), prompt_tokens: int = 0, turns: int = 1) -> Asked:
    """What the rules look at, of a request with this last user turn."""
    seen = text[:READ].lower()
    words = _WORD.findall(seen)
    return Asked(seen, words, frozenset(words), needs, prompt_tokens, turns)
