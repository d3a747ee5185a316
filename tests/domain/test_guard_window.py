"""What comes out of a window is what comes out of the whole text at once, however it is cut, and is what `re` says."""

import re
import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.orchestrator.guard.automaton import Automaton
from hasten.orchestrator.guard.program import MOST_NODES, Unsupported, compiled
from hasten.orchestrator.guard.window import Pattern, Patterns, Window

EXPRESSIONS = [
    "ab", "a+b", "a*b", "(ab|a)(c|bcd)", "a.*?b", "a.*b", "[ab]{2,3}c", r"\bab\b", "^a+$", "(a|ab)(bc|c)?", "a{2}",
    "(?:a|b)*c", r"b\Bc", "c$", "(a+)+b", "(?i:AB)", "[^a]b", r"\w+ \w+", "a??b", "(aa|a)*?b", r"\Aa", r"c\Z", "é",
    "(a*b*)+c", r"\s+a", "(?s:a.b)", r"[\w.]+@[\w.]+", r"(?a:\w)b", "a(?:b(?:c|d)?)?", r"\d{2,}", "[a-c-]b", "aa|aab",
]  # fmt: skip
AUTOMATA = {expression: Automaton(compiled(expression)) for expression in EXPRESSIONS}
TEXT = st.text(alphabet="aabbcdé @.1\n\u0301", max_size=40)
RULES = st.lists(st.tuples(st.sampled_from(EXPRESSIONS), st.sampled_from(["", "X", "<ab>"])), min_size=1, max_size=4)
CUTS = st.lists(st.integers(1, 7), max_size=40)


def patterns(*rules: tuple[str, str], stops: bool = False, longest: int = 100) -> Patterns:
    return Patterns(
        [
            Pattern(
                name=str(at),
                automaton=AUTOMATA.get(expression) or Automaton(compiled(expression)),
                longest=longest,
                replacement=replacement,
                stops=stops,
            )
            for at, (expression, replacement) in enumerate(rules)
        ]
    )


def pieces(text: str, cuts: list[int]) -> list[str]:
    made, start = [], 0
    for size in cuts:
        made.append(text[start : start + size])
        start += size
    return [piece for piece in [*made, text[start:]] if piece]


def shown(window: Window, cut: list[str]) -> str:
    return "".join([*(window.take(piece) for piece in cut), window.end()])


def by_re(text: str, rules: list[tuple[str, str]]) -> str:
    """All matches of all rules, what they cover together replaced by the replacement of the first."""
    spans = sorted(
        (found.start(), at, found.end())
        for at, (expression, _) in enumerate(rules)
        for found in re.finditer(expression, text, re.MULTILINE)
    )
    out, covered = [], 0
    for start, at, end in spans:
        if start >= covered:
            out += [unmarked(text, covered, start), rules[at][1]]
        covered = max(covered, end)
    return "".join([*out, unmarked(text, covered, len(text))])


def unmarked(text: str, covered: int, until: int) -> str:
    while covered and covered < until and unicodedata.category(text[covered]) in ("Mn", "Me"):
        covered += 1
    return text[covered:until]


@given(TEXT, RULES, CUTS)
def test_it_is_what_re_says_of_the_whole(text: str, rules: list[tuple[str, str]], cuts: list[int]) -> None:
    assert shown(Window(patterns(*rules)), pieces(text, cuts)) == by_re(text, rules)


@given(TEXT, RULES, CUTS, st.integers(1, 6), st.booleans())
def test_cutting_changes_nothing(
    text: str, rules: list[tuple[str, str]], cuts: list[int], longest: int, stops: bool
) -> None:
    made = [patterns(*rules, longest=longest).all[0], *patterns(*rules, longest=longest, stops=stops).all[1:]]
    whole, cut = Window(Patterns(made)), Window(Patterns(made))
    assert shown(whole, [text] if text else []) == shown(cut, pieces(text, cuts))
    assert (whole.stopped, whole.hits) == (cut.stopped, cut.hits)


@given(TEXT, st.sampled_from(EXPRESSIONS), CUTS)
def test_a_rule_that_stops_shows_nothing_of_a_match(text: str, expression: str, cuts: list[int]) -> None:
    window = Window(patterns((expression, ""), stops=True))
    found = re.search(expression, text, re.MULTILINE)
    assert shown(window, pieces(text, cuts)) == (text[: found.start()] if found else text)
    assert window.stopped == ("0" if found else "")


@given(TEXT, RULES, CUTS, st.integers(1, 5))
def test_reading_a_little_at_a_time_changes_nothing(
    text: str, rules: list[tuple[str, str]], cuts: list[int], looks: int
) -> None:
    window, out = Window(patterns(*rules)), []
    for piece in pieces(text, cuts):
        window.add(piece)
        while not window.run(looks):
            pass
        out.append(window.out())
    assert "".join([*out, window.end()]) == by_re(text, rules)


def test_only_what_may_match_is_held_back() -> None:
    window = Window(patterns((r"sk-\d{4}", "[key]"), ("stop it", "")))
    assert window.take("My key is s") == "My key is "
    assert window.take("k-12") == ""
    assert window.take("3x and sk-1234") == "sk-123x and [key]"
    assert window.take("5 or stop") == "5 or "
    assert window.end() == "stop"


def test_a_whole_match_is_replaced_without_waiting_for_more() -> None:
    assert Window(patterns(("secret", "…"))).take("a secret") == "a …"
    assert Window(patterns(("secret", ""), stops=True)).take("a secret") == "a "


def test_a_match_at_the_very_end() -> None:
    window = Window(patterns((r"\d+$", "#")))
    assert window.take("pin 12") == "pin "
    assert window.take("34") == ""
    assert window.end() == "#"


def test_overlapping_matches_are_replaced_together() -> None:
    window = Window(patterns(("abc", "1"), ("cde", "2"), ("ef", "3")))
    assert window.take("xabcdefx") + window.end() == "x1x"
    stopping = Patterns([*patterns(("abc", "1")).all, *patterns(("cde", ""), stops=True).all])
    stopped = Window(stopping)
    assert stopped.take("xabcd") + stopped.take("ex") == "x1"
    assert stopped.stopped


def test_marks_that_combine_go_with_what_is_replaced() -> None:
    window = Window(patterns(("cafe", "[x]")))
    assert window.take("a cafe") + window.take("\u0301\u0301") + window.take("s") + window.end() == "a [x]s"


def test_beyond_its_longest_a_possible_match_is_let_go_and_a_real_one_ends() -> None:
    window = Window(patterns(("<.*>", "[tag]"), longest=8))
    assert window.take("<" + "a" * 20) == "<" + "a" * 12
    assert window.take(">") + window.end() == "a[tag]"
    greedy = Window(patterns(("key.*", "[key]"), longest=8))
    assert greedy.take("key" + "1" * 30) + greedy.end() == "[key]" + "1" * 25


def test_what_was_shown_is_context_and_is_not_searched() -> None:
    window = Window(patterns((r"\bcat", "[x]"), ("known", "[y]")))
    window.known("known con")
    assert window.take("cat cat") + window.end() == "cat [x]"


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("a*", "nothing"),
        (r"(a)\1", "reference to a group"),
        ("(?=a)b", "looking ahead or behind"),
        ("(?<!a)b", "looking ahead or behind"),
        (r"(?:a{100}){20}", str(MOST_NODES)),
        (r"\b", "nothing"),
        ("(?>a+)b", "atomic group"),
        ("a++b", "possessive repeat"),
    ],
)
def test_what_an_automaton_cannot_do_is_refused(expression: str, why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        compiled(expression)


HOSTILE = ["(a+)+$", "(a|aa)+b", "(a*)*b", "(.*a){12}b", "[ab]*a[ab]{14}c", "a.{200}b|a", r"(\w+\s?)+!", ".*.*.*=.*"]


@pytest.mark.parametrize("expression", HOSTILE)
def test_a_hostile_pattern_costs_no_more_per_character_in_a_long_text(expression: str) -> None:
    """Backtracking would need more than the age of the universe for most of these."""

    def looks(size: int) -> int:
        window, turns = Window(patterns((expression, "x"), longest=256)), 0
        window.add("aab" * (size // 3))
        while not window.run(1000):
            turns += 1
        window.end()
        return turns

    looks(600)
    assert looks(4800) <= 10 * (looks(1200) + 1)


def test_no_turn_of_a_hostile_pattern_is_long() -> None:
    """A turn ends after its looks, whatever a step costs: compared with the same number of cheap ones."""
    text = (string.ascii_lowercase * 100)[:2000]

    def longest_turn(expression: str) -> int:
        window, steps = Window(patterns((expression, "x"))), []
        window.add(text)
        before, over = 0, False
        while not over:
            over = window.run(500)
            steps.append(window._at - before)
            before = window._at
        return max(steps)

    assert longest_turn("[a-z]*q[a-z]{14}[0-9]") <= longest_turn("zq")
