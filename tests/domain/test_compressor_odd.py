"""Odd and hostile requests: limits that are none, results without calls, thousands of tool steps, equal sentences."""

import time

import pytest
from compressor_rig import COUNTER, QUESTION, filler, run

from hasten.compressor.domain import compress
from hasten.compressor.history import calls, results
from hasten.compressor.sentences import split
from hasten.compressor.settings import Settings
from hasten.messages.chat import Turn
from hasten.messages.compress import Compress
from hasten.messages.failure import Failed
from hasten.messages.retrieve import Passage

POLICY = Settings().policy()
SENTENCE = "The device can be returned within 30 days."


def steps(number: int) -> list[Turn]:
    """So many tool calls, each with its result."""
    return [
        turn
        for at in range(number)
        for turn in (
            Turn(role="assistant", tool_calls=[{"id": f"c{at}", "type": "function", "function": {"name": "f"}}]),
            Turn(role="tool", tool_call_id=f"c{at}", content="done"),
        )
    ]


@pytest.mark.parametrize("limit", ["token_budget", "max_tokens"])
def test_a_negative_limit_is_refused_by_name(limit: str) -> None:
    with pytest.raises(Failed, match="0 or more") as refused:
        run([QUESTION], [filler(100)], **{limit: -5})
    assert (refused.value.failure.code, refused.value.failure.param) == ("bad_request", limit)


def test_a_budget_of_nothing_keeps_what_is_never_cut() -> None:
    for budget in (0, 1):
        made = run([Turn(role="system", content="Be brief."), QUESTION], [filler(900)], token_budget=budget)
        assert [turn.content for turn in made.messages] == ["Be brief.", QUESTION.content]


def test_a_result_of_a_call_that_is_not_there_is_left_out_wherever_it_stands() -> None:
    stray = Turn(role="tool", tool_call_id="lost", content="42")
    early = Turn(role="tool", tool_call_id="c1", content="too early")
    said = [Turn(role="user", content="go"), steps(1)[0], steps(1)[1], stray, early, *steps(2)[2:]]
    made = run([*said, Turn(role="assistant", content="ok"), QUESTION])
    assert [turn.text for turn in made.messages if turn.role == "tool"] == ["done", "done"]
    unnamed = Turn(role="tool", content="a result without a name")
    assert unnamed in run([Turn(role="user", content="go"), steps(1)[0], unnamed, QUESTION]).messages


def test_thousands_of_tool_steps_take_time_in_proportion() -> None:
    def seconds(number: int) -> float:
        started = time.process_time()
        made = run([QUESTION, *steps(number)], context_window=1500)
        assert made.tokens_after <= 1500 - 512 < made.tokens_after + 100
        assert calls(made.messages) == results(made.messages)
        return time.process_time() - started

    few = min(seconds(300) for _ in range(3))
    assert seconds(3000) < 40 * few


@pytest.mark.parametrize(
    ("one", "other"), [("A1", "A2"), ("C", "C++"), ("产品甲", "产品乙"), ("Plan Basic", "Plan Pro")]
)
def test_what_is_said_of_two_things_is_kept_of_both(one: str, other: str) -> None:
    passages = [
        Passage(id=title, collection="c", document=title, title=title, text=f"{SENTENCE} {filler(100)}", score=0.5)
        for title in (one, other)
    ]
    asked = Turn(role="user", content=f"How long can the device be returned, {one} and {other}?")
    made = compress(Compress(messages=[asked], passages=passages, token_budget=190), COUNTER, POLICY)
    assert made.messages[-1].text.count(SENTENCE) == 2
    again = compress(Compress(messages=[asked], passages=[passages[0]] * 2, token_budget=190), COUNTER, POLICY)
    assert again.messages[-1].text.count(SENTENCE) == 1


def test_equal_sections_of_different_chapters_are_both_kept_and_named() -> None:
    text = f"# Basic\n\n## Return\n\n{SENTENCE}\n\n# Pro\n\n## Return\n\n{SENTENCE}\n\n# Other\n\n{filler(400)}"
    made = run([Turn(role="user", content="How long can Basic and Pro be returned?")], [text], token_budget=160)
    said = made.messages[-1].text
    assert said.count(f"## Return\n\n{SENTENCE}") == 2
    assert said.index("# Basic") < said.index(SENTENCE) < said.index("# Pro")


def test_a_heading_hangs_on_the_one_that_it_is_under() -> None:
    units = split("# A\n\n## B\n\nOne.\n\n### C\n\n## D\n\nTwo.\n\n# E\n\nThree.")
    above = {unit.text: units[unit.lead].text if unit.lead >= 0 else None for unit in units}
    assert above == {
        "# A": None,
        "## B": "# A",
        "One.": "## B",
        "### C": "## B",
        "## D": "# A",
        "Two.": "## D",
        "# E": None,
        "Three.": "# E",
    }
