"""Compression of whole requests: budgets, what is never cut, and the promises that hold for any request."""

import itertools
from typing import Any

import pytest
from compressor_rig import COUNTER, FACT, POLICY, QUESTION, filler, run, size, talk
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.compressor.domain import compress
from hasten.compressor.history import calls, results
from hasten.compressor.sentences import split
from hasten.messages.chat import Example, Turn
from hasten.messages.compress import Compress
from hasten.messages.failure import Failed
from hasten.messages.retrieve import Passage


@pytest.mark.parametrize("budget", [50, 500, 5000])
@pytest.mark.parametrize("tokens", [40, 120, 2000, 20_000])
def test_the_budget_is_a_hard_cap_and_short_input_is_unchanged(budget: int, tokens: int) -> None:
    text = filler(tokens)
    made = run([QUESTION], [text], token_budget=budget, context_window=budget + 100, max_tokens=100)
    assert made.tokens_after == size(made) <= budget
    assert made.tokens_after <= made.tokens_before
    if made.tokens_before <= budget:
        assert text.strip() in made.messages[-1].text
        assert made.tokens_after == made.tokens_before


def test_everything_is_kept_when_it_fits() -> None:
    messages = [Turn(role="system", content="Be brief."), *talk(2), QUESTION]
    shown = [Example(user="q", assistant="a")]
    made = run(messages, [FACT, "Another."], examples=shown, token_budget=2000)
    assert made.messages[0] == messages[0]
    assert made.messages[3:-1] == messages[1:-1]
    assert made.used == ["p0", "p1"]
    assert {part.kind for part in made.parts} == {"system", "examples", "history", "passage", "user"}
    assert all(part.before == part.after and part.why for part in made.parts)


def test_a_request_without_anything_to_add_comes_back_as_it_is() -> None:
    for text in ("", "   ", "{}", "[]", '{"a":""}', "\n\n"):
        made = run([Turn(role="user", content=text)], token_budget=1)
        assert [turn.content for turn in made.messages] == [text]
        assert made.tokens_after == made.tokens_before


@pytest.mark.parametrize("text", ["", "   ", "{}", "[]", '{"a":""}', "\n\n"])
@pytest.mark.parametrize("budget", [1, 1000])
def test_passages_with_next_to_nothing_in_them(text: str, budget: int) -> None:
    made = run([QUESTION], [text, FACT, text], token_budget=budget)
    assert made.messages[-1].text.endswith(QUESTION.text)
    assert ("p0" in made.used) == (budget == 1000 and bool(text.strip()))


def test_over_the_window_with_nothing_left_to_cut_is_a_failure_with_both_numbers() -> None:
    with pytest.raises(Failed) as caught:
        run([Turn(role="user", content=filler(2000))], [FACT], context_window=1000, max_tokens=300)
    failure = caught.value.failure
    assert failure.code == "context_overflow"
    assert "1000" in failure.detail
    assert "300" in failure.detail
    with pytest.raises(Failed, match="context_overflow"):
        run([QUESTION], context_window=100, max_tokens=100)


def test_a_system_text_as_long_as_the_budget_does_not_silence_the_passages() -> None:
    system = Turn(role="system", content=filler(1200))
    made = run([system, QUESTION], [filler(600), FACT], token_budget=1200, context_window=8000)
    assert FACT in made.messages[-1].text
    assert made.messages[0].content == system.content


def test_the_window_bounds_even_what_the_budget_would_allow() -> None:
    made = run([QUESTION], [filler(3000)], token_budget=5000, context_window=900, max_tokens=500)
    assert made.tokens_after <= 400
    assert made.used == ["p0"]


WORDS = st.sampled_from(["plan", "price", "9", "12.5%", "Not", "refund", "of", "the", "KX-440B", "解約", "é", "<s>"])
SENTENCE = st.lists(WORDS, min_size=1, max_size=12).map(lambda words: " ".join(words).capitalize() + ".")
TEXT = st.lists(SENTENCE, max_size=15).map(" ".join) | st.text(max_size=80)
ROLES = st.sampled_from(["user", "assistant", "call", "system", "developer"])
TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "f", "parameters": {}}}]


@st.composite
def requests(draw: st.DrawFn) -> Compress:
    turns: list[Turn] = []
    for role, text in draw(st.lists(st.tuples(ROLES, TEXT), max_size=12)):
        if role == "call":
            name = f"c{len(turns)}"
            made = [{"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}]
            turns.append(Turn(role="assistant", content=text, tool_calls=made))
            turns.append(Turn(role="tool", tool_call_id=name, content=text))
        else:
            turns.append(Turn(role=role, content=text))  # type: ignore[arg-type]
    turns.append(Turn(role="user", content=draw(TEXT)))
    passages = [
        Passage(id=f"p{at}", collection="c", document="d", text=text, title=title, score=score)
        for at, (text, title, score) in enumerate(draw(st.lists(st.tuples(TEXT, TEXT, st.integers(0, 3)), max_size=6)))
    ]
    return Compress(
        messages=turns,
        passages=passages,
        examples=[Example(user=one, assistant=two) for one, two in draw(st.lists(st.tuples(TEXT, TEXT), max_size=4))],
        token_budget=draw(st.integers(1, 1500)),
        context_window=draw(st.integers(200, 4000)),
        max_tokens=draw(st.integers(1, 200)),
        tools=draw(st.sampled_from([None, TOOLS])),
    )


@settings(deadline=None, max_examples=200)
@given(requests())
def test_the_promises_hold_for_any_request(request: Compress) -> None:
    try:
        made = compress(request, COUNTER, POLICY)
    except Failed:
        with pytest.raises(Failed, match="context_overflow"):
            compress(request, COUNTER, POLICY)
        return
    assert made == compress(request, COUNTER, POLICY)
    assert made.tokens_after == size(made, request.tools) <= request.context_window - request.max_tokens
    assert made.tokens_after <= made.tokens_before
    said = request.messages[-1].text.replace("<s>", "< s>")
    last = made.messages[-1]
    assert last.role == "user"
    assert last.text.endswith(said)
    roles = [turn.role for turn in made.messages]
    assert "system" not in roles[1:]
    assert "developer" not in roles
    assert next(role for role in roles if role != "system") in ("user", "assistant")
    assert results(made.messages) == calls(made.messages)
    system = [turn.text for turn in request.messages if turn.role in ("system", "developer")]
    if len(system) == 1:
        assert made.messages[0].text == system[0]
    assert [passage.id for passage in request.passages if passage.id in made.used] == made.used


@settings(deadline=None)
@given(st.lists(st.lists(SENTENCE, min_size=1, max_size=20), min_size=1, max_size=6), st.integers(60, 400))
def test_every_sentence_of_the_prompt_is_verbatim_one_of_a_passage(texts: list[list[str]], budget: int) -> None:
    passages = [" ".join(sentences).replace("<s>", "x") for sentences in texts]
    made = run([QUESTION], passages, token_budget=budget)
    assert made.tokens_after <= max(budget, 120)
    allowed = {unit.text for text in passages for unit in split(text)}
    for block in made.messages[-1].text.split("\n\n")[:-1]:
        number, _, body = block.partition("\n")
        assert number.startswith("[")
        assert {unit.text for unit in split(body)} <= allowed | {body for text in passages if body in text}


def test_rounds_before_and_after_are_explained() -> None:
    made = run([*talk(30), QUESTION], [filler(900)], token_budget=500)
    history = next(part for part in made.parts if part.kind == "history")
    assert history.after < history.before
    assert "rounds left out" in history.why
    total = sum(part.after for part in made.parts)
    assert total <= made.tokens_after + 8 * len(made.parts)
    kinds = [kind for kind, _ in itertools.groupby(part.kind for part in made.parts)]
    assert kinds == ["user", "history", "passage"]
