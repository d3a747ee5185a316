"""What a worker decides: whether a request fits, and whether it can be in time."""

from typing import Any

import pytest

from hasten.messages.chat import Turn
from hasten.messages.failure import Failed
from hasten.messages.generate import Generate
from hasten.models import Model
from hasten.settings import SettingsError
from hasten.worker.domain import check, check_in_time, estimate_tokens, find_model, with_defaults

USER = Turn(role="user", content="hi")


def _asks(**options: Any) -> Generate:
    return Generate(messages=[USER], **options)


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        (_asks(tools=[{"type": "function"}]), "tools"),
        (_asks(response_format={"type": "json_object"}), "response_format"),
        (_asks(logprobs=True), "logprobs"),
        (_asks(continues="It is"), "continues"),
        (Generate(messages=[Turn(role="user", content=[{"type": "image_url", "image_url": {}}])]), "messages"),
    ],
)
def test_what_the_engine_cannot_do_is_refused_by_name(request_: Generate, param: str) -> None:
    with pytest.raises(Failed) as caught:
        check(request_, [], continues=False)
    assert caught.value.failure.code == "unsupported"
    assert caught.value.failure.param == param


def test_what_the_engine_can_do_passes() -> None:
    able = ["tools", "json", "vision", "logprobs"]
    check(_asks(logprobs=True, top_logprobs=2), able, continues=True)
    check(_asks(tools=[{"type": "function"}]), able, continues=True)
    check(_asks(response_format={"type": "json_object"}), able, continues=True)
    check(_asks(response_format={"type": "text"}), [], continues=False)
    check(_asks(continues="It is"), [], continues=True)


def test_an_answer_of_a_fixed_form_is_not_continued() -> None:
    with pytest.raises(Failed):
        check(_asks(continues="{", response_format={"type": "json_object"}), ["json"], continues=True)


@pytest.mark.parametrize("request_", [Generate(messages=[]), _asks(max_tokens=0)])
def test_a_request_without_sense_is_bad(request_: Generate) -> None:
    with pytest.raises(Failed) as caught:
        check(request_, [], continues=True)
    assert caught.value.failure.code == "bad_request"


def test_defaults_fill_only_what_is_open() -> None:
    made = with_defaults(
        _asks(temperature=0.7, extra={"top_k": 5}), {"temperature": 0.0, "seed": 3, "min_p": 0.1, "top_k": 1}
    )
    assert (made.temperature, made.seed) == (0.7, 3)
    assert made.extra == {"min_p": 0.1, "top_k": 5}


def test_a_zero_is_not_open() -> None:
    assert with_defaults(_asks(temperature=0.0), {"temperature": 0.8}).temperature == 0.0


def test_a_line_longer_than_the_deadline_is_refused_with_a_time_to_come_back() -> None:
    with pytest.raises(Failed) as caught:
        check_in_time(wait_ms=900.0, needed_ms=100.0, left_ms=500.0)
    assert caught.value.failure.code == "overloaded"
    assert caught.value.failure.retry_after_ms == 500, "after so long the line is short enough"


def test_who_has_time_is_admitted() -> None:
    check_in_time(wait_ms=0.0, needed_ms=200.0, left_ms=200.0)
    check_in_time(wait_ms=100.0, needed_ms=90.0, left_ms=200.0)
    with pytest.raises(Failed):
        check_in_time(wait_ms=0.0, needed_ms=300.0, left_ms=200.0)


def test_models_are_found_by_name_alias_and_slug() -> None:
    table = [Model(name="A B", slug="a-b"), Model(name="c", slug="c", aliases=["fast"])]
    assert find_model("", table).name == find_model("a-b", table).name == "A B"
    assert find_model("fast", table).name == "c"
    with pytest.raises(SettingsError, match="A B, c"):
        find_model("d", table)


def test_estimates_grow_with_the_text() -> None:
    assert estimate_tokens([USER]) < estimate_tokens([USER, Turn(role="user", content="x" * 300)])
