"""The demo's judge: it must see what is wrong, or its exit code means nothing."""

import pytest

from hasten.answered import Answered
from hasten.demo.rows import Step, problems, row_of
from hasten.messages.failure import Failure

STEP = Step(name="s", question="q", sources=("miss",), facts=("9 euros",), not_facts=("11",), generations=1)


def test_all_is_well() -> None:
    assert problems(STEP, [Answered(text="It costs 9 Euros.", cache="miss")], 1) == []


@pytest.mark.parametrize(
    ("answers", "generations", "hint"),
    [
        ([Answered(text="It costs 9 euros.", cache="exact")], 1, "source"),
        ([Answered(text="It costs 9 euros.", cache="miss")], 0, "0 generations"),
        ([Answered(text="It is dear.", cache="miss")], 1, "lacks '9 euros'"),
        ([Answered(text="9 euros, not 11.", cache="miss")], 1, "still says '11'"),
        ([Answered(text="9 euros", cache="miss"), Answered(text="9 euros!", cache="miss")], 1, "differ"),
        ([Answered(failure=Failure(code="overloaded", detail="full"))], 1, "overloaded: full"),
    ],
)
def test_each_fault_is_seen(answers: list[Answered], generations: int, hint: str) -> None:
    assert hint in " ".join(problems(STEP, answers, generations))


def test_sources_of_many_are_counted() -> None:
    answers = [Answered(text="x", cache=kind, ttft_ms=5.0) for kind in ("miss", "shared", "shared")]
    assert row_of(STEP, answers, 1).source == "1 miss, 2 shared"
