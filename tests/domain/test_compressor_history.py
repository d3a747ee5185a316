"""History: whole rounds, oldest first, calls with their results, and the same cut for many turns."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hasten.compressor.history import calls, conversation, keep, results
from hasten.messages.chat import Turn


def call(*ids: str) -> list[dict[str, Any]]:
    return [{"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ids]


USER, ASSISTANT = Turn(role="user", content="u"), Turn(role="assistant", content="a")
CALL, RESULT = Turn(role="assistant", tool_calls=call("c1")), Turn(role="tool", tool_call_id="c1", content="r")


def test_rounds_start_with_a_user_and_hold_calls_with_their_results() -> None:
    system = Turn(role="system", content="s")
    talk = conversation([system, ASSISTANT, USER, CALL, RESULT, ASSISTANT, USER])
    assert talk.system == [system]
    assert talk.rounds == [[ASSISTANT], [USER, CALL, RESULT, ASSISTANT]]
    assert talk.user == USER
    assert talk.steps == []


def test_what_follows_the_last_user_turn_is_in_steps_of_call_and_result() -> None:
    second = Turn(role="assistant", tool_calls=call("c2", "c3"))
    more = [Turn(role="tool", tool_call_id=one, content="r") for one in ("c2", "c3")]
    talk = conversation([USER, CALL, RESULT, second, *more])
    assert talk.steps == [[CALL, RESULT], [second, *more]]


def test_a_result_that_comes_after_another_user_turn_stays_with_its_call() -> None:
    talk = conversation([USER, CALL, USER, RESULT, ASSISTANT, USER])
    assert talk.rounds == [[USER, CALL, USER, RESULT, ASSISTANT]]


def test_a_call_that_is_never_answered_does_not_glue_rounds_together() -> None:
    assert len(conversation([USER, CALL, USER, ASSISTANT, USER, ASSISTANT, USER]).rounds) == 3


def test_no_user_turn_at_all() -> None:
    talk = conversation([Turn(role="developer", content="d"), ASSISTANT])
    assert talk.user is None
    assert talk.rounds == []
    assert talk.steps == [[ASSISTANT]]


def test_the_oldest_go_first_and_pinned_ones_never() -> None:
    assert keep([10, 10, 10, 10], [False] * 4, 25) == [False, False, False, True]
    assert keep([10, 10, 10, 10], [False] * 4, 39) == [False, False, True, True]
    assert keep([10, 10, 10, 10], [True, False, False, False], 30) == [True, False, True, True]
    assert keep([10, 10], [True, True], 5) == [True, True]
    assert keep([10, 10], [False, False], 20) == [True, True]
    assert keep([10, 10], [False, False], 0) == [False, False]
    assert keep([], [], 0) == []


def test_the_cut_moves_in_steps_so_that_the_beginning_stays_the_same() -> None:
    """80 turns: with a step of half the limit the beginning changes about every tenth turn, not at each."""
    cuts = [keep([10] * turns, [False] * turns, 200).index(True) for turns in range(1, 81)]
    assert cuts == sorted(cuts)
    assert len(set(cuts)) <= 8
    assert all(10 * (turns - cut) <= 200 for turns, cut in enumerate(cuts, 1))


ROUNDS = st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=30)


@given(ROUNDS, st.integers(0, 400))
def test_within_the_limit_unless_only_pinned_rounds_are_left(rounds: list[tuple[int, bool]], limit: int) -> None:
    sizes, fixed = [size for size, _ in rounds], [pinned for _, pinned in rounds]
    kept = keep(sizes, fixed, limit)
    left = sum(size for size, stays in zip(sizes, kept, strict=True) if stays)
    loose = [stays for stays, pinned in zip(kept, fixed, strict=True) if not pinned]
    assert left <= limit or not any(loose)
    assert loose == sorted(loose)
    assert all(stays for stays, pinned in zip(kept, fixed, strict=True) if pinned)


@given(ROUNDS, st.integers(0, 400), st.integers(2, 4))
def test_twice_the_limit_never_keeps_less(rounds: list[tuple[int, bool]], limit: int, times: int) -> None:
    sizes, fixed = [size for size, _ in rounds], [False for _ in rounds]
    less, more = keep(sizes, fixed, limit), keep(sizes, fixed, times * limit)
    assert all(after or not before for before, after in zip(less, more, strict=True))


TURNS = st.lists(st.sampled_from(["user", "assistant", "call", "result", "system", "developer"]), max_size=20)


@given(TURNS)
def test_nothing_is_lost_and_no_group_holds_a_result_without_its_call(roles: list[str]) -> None:
    turns = []
    for at, role in enumerate(roles):
        if role == "call":
            turns.append(Turn(role="assistant", content=str(at), tool_calls=call(f"c{at}")))
        elif role == "result":
            made = sorted(calls(turns) - results(turns))
            turns += [Turn(role="tool", content=str(at), tool_call_id=made[0])] if made else []
        else:
            turns.append(Turn(role=role, content=str(at)))  # type: ignore[arg-type]
    talk = conversation(turns)
    flat = [*talk.system, *(turn for group in talk.rounds for turn in group)]
    flat += [talk.user] if talk.user else []
    flat += [turn for group in talk.steps for turn in group]
    assert sorted(turn.text for turn in flat) == sorted(turn.text for turn in turns)
    assert all(results(group) <= calls(group) for group in talk.rounds)
