"""The line with which `hasten ask` ends."""

import msgspec

from hasten.answered import Answered
from hasten.commands.ask import summary

WHOLE = Answered(cache="miss", model="m", finish_reason="stop", ttft_ms=12.0, total_ms=40.0)


def test_it_says_where_the_answer_came_from_and_how_fast() -> None:
    assert summary(WHOLE) == "generated · m · first token 12 ms · total 40 ms"


def test_what_the_guard_did_is_said() -> None:
    notes = {"guard": {"redacted": {"mail": 2}, "unanswered": ["names"]}}
    said = summary(msgspec.structs.replace(WHOLE, notes=notes))
    assert said.endswith(" · 2 × hidden by the guard mail · the guard names has not answered")


def test_an_answer_that_the_guard_has_stopped_names_the_rule() -> None:
    stopped = msgspec.structs.replace(WHOLE, finish_reason="content_filter", ttft_ms=None)
    for reason, said in (
        ("", "no text · total 40 ms · stopped by the guard a"),
        ("unanswered", "stopped by the guard a (unanswered)"),
    ):
        notes = {"guard": {"stopped": "a", "reason": reason}}
        assert summary(msgspec.structs.replace(stopped, notes=notes)).endswith(said)
