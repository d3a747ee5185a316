"""The marks of a prompt's beginnings: shared exactly as far as prompts are, and by one tenant only."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hasten.messages.chat import ChatRequest, Example, Turn
from hasten.orchestrator.prefix import MOST, STEP, prefix_of, thinned

TALK: list[tuple[Any, str]] = [
    ("system", "You sell plans."),
    ("user", "What is the price?"),
    ("assistant", "9 euros."),
    ("user", "And yearly?"),
]


def marks(talk: list[tuple[Any, str]], tenant: str = "acme", **fields: Any) -> list[str]:
    request = ChatRequest(messages=[Turn(role=role, content=text) for role, text in talk], **fields)
    return list(prefix_of(tenant, request))


def test_a_conversation_that_goes_on_has_all_marks_of_its_past() -> None:
    longer = [*TALK, ("assistant", "96 euros."), ("user", "Thanks, and for two?")]
    assert marks(longer)[: len(marks(TALK))] == marks(TALK)
    assert len(marks(TALK)) == len(TALK)


def test_prompts_share_marks_up_to_where_they_differ() -> None:
    other = [*TALK[:2], ("assistant", "8 euros."), TALK[3]]
    assert [one == two for one, two in zip(marks(TALK), marks(other), strict=True)] == [True, True, False, False]
    assert not set(marks(TALK)) & set(marks([("system", "You sell cars."), *TALK[1:]]))
    assert not set(marks(TALK)) & set(marks(TALK, tools=[{"type": "function"}]))


def test_tenants_share_nothing() -> None:
    assert not set(marks(TALK)) & set(marks(TALK, "globex"))


def test_no_mark_says_anything_of_the_text() -> None:
    assert all(len(mark) == 16 and int(mark, 16) >= 0 for mark in marks(TALK))


def test_the_last_question_is_left_out_where_passages_come_before_it() -> None:
    assert marks(TALK, knowledge=["help"]) == marks(TALK)[:-1]
    assert marks(TALK, examples=[Example(user="a", assistant="b")]) == marks(TALK)[:1]
    assert marks([("user", "What?")], knowledge=["help"]) == marks([("user", "Who?")], knowledge=["help"])


def test_a_long_document_is_shared_by_the_questions_that_follow_it() -> None:
    document = "".join(chr(97 + number % 23) for number in range(3 * STEP))
    one, two = (marks([("user", document + question)]) for question in ("who", "why"))
    assert len(one) == 5
    assert [left == right for left, right in zip(one, two, strict=True)] == [True] * 4 + [False]


def test_tokens_grow_and_are_near_the_estimate() -> None:
    request = ChatRequest(messages=[Turn(role=role, content=text * 50) for role, text in TALK])
    tokens = list(prefix_of("acme", request).values())
    assert tokens == sorted(tokens)
    words = sum(len(turn.text) for turn in request.messages) / 3.5
    assert words <= tokens[-1] < words * 1.1


@given(st.integers(0, 2000), st.integers(0, 40))
def test_thinning_is_bounded_and_a_longer_prompt_keeps_marks_of_a_shorter_one(count: int, more: int) -> None:
    every = [(str(number), number) for number in range(count + more)]
    short, longer = thinned(every[:count]), thinned(every)
    assert len(longer) <= MOST
    assert longer[:2] == every[:2]
    assert longer[-1:] == every[-1:]
    shared = [number for _, number in set(short) & set(longer)]
    assert max(shared, default=0) >= 0.9 * count - 64 * (1 + count // 500)
