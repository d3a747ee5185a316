"""The wire formats of the gateway: frames of a stream, whole answers, errors, and what is read from a request."""

import json
from typing import Any

import pytest

from hasten.gateway.completion import Completion, usage_object
from hasten.gateway.domain import ask_of, check_tenant, request_id_of
from hasten.gateway.errors import STATUS, error_headers, error_object, status_of
from hasten.gateway.head import Head
from hasten.gateway.sse import PING, Frames
from hasten.messages.chat import Accepted, Chunk, Done, Note, Ping, Usage
from hasten.messages.failure import CODES, Failed, Failure, without_value

ASKED = {"messages": [{"role": "user", "content": "hi"}]}
DONE = Done(finish_reason="stop", usage=Usage(prompt_tokens=7, completion_tokens=3, cached_tokens=4), model="small")


def frames(*events: Any, include_usage: bool = False, head: Head | None = None) -> list[Any]:
    """What a client reads: the data of every event, decoded, and the end mark as it is."""
    made = Frames(head or Head("r1", "auto"), 1700000000, include_usage=include_usage)
    wire = b"".join(map(made.of, events)).decode()
    assert wire.endswith("\n\n")
    data = [one.removeprefix("data: ") for one in wire.removesuffix("\n\n").split("\n\n")]
    return [one if one == "[DONE]" else json.loads(one) for one in data]


def text_of(chunks: list[Any]) -> str:
    return "".join(choice["delta"].get("content", "") for chunk in chunks[:-1] for choice in chunk.get("choices", []))


def test_the_role_is_in_the_first_delta_only() -> None:
    *chunks, end = frames(Chunk(seq=0, text="Hi"), Chunk(seq=1, text=" there"), DONE)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas == [{"role": "assistant", "content": "Hi"}, {"content": " there"}, {}]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "stop"]
    assert end == "[DONE]"


def test_every_chunk_has_the_same_identity_even_if_the_model_is_told_late() -> None:
    head = Head("r1", "auto")
    made = Frames(head, 1700000000, include_usage=True)
    head.see(Note(kind="route", data={"model": "small"}))
    wire = made.of(Chunk(seq=0, text="a"))
    head.see(Done(finish_reason="stop", model="other"))
    wire += made.of(DONE)
    chunks = [json.loads(line[6:]) for line in wire.decode().splitlines() if line.startswith("data: {")]
    identities = {(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in chunks}
    assert identities == {("chatcmpl-r1", 1700000000, "small", "chat.completion.chunk")}


def test_a_chunk_without_choices_comes_only_when_usage_was_asked_for() -> None:
    assert all(chunk["choices"] for chunk in frames(Chunk(seq=0, text="a"), DONE)[:-1])
    *chunks, usage, end = frames(Chunk(seq=0, text="a"), DONE, include_usage=True)
    assert all(chunk["choices"] and chunk["usage"] is None for chunk in chunks)
    assert (usage["choices"], usage["usage"]["total_tokens"], end) == ([], 10, "[DONE]")
    assert usage["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}


def test_an_empty_answer_has_a_role_a_reason_and_an_end() -> None:
    first, last, end = frames(Done(finish_reason="length"))
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert (last["choices"][0]["finish_reason"], end) == ("length", "[DONE]")


def test_a_failure_after_tokens_is_an_error_and_an_end() -> None:
    _, error, end = frames(Chunk(seq=0, text="a"), Failure(code="incomplete", detail="lost"))
    assert error == {
        "error": {"message": "lost", "type": "server_error", "param": None, "code": "incomplete", "retryable": True},
    }
    assert end == "[DONE]"
    _, told, _ = frames(Chunk(seq=0, text="a"), Failure(code="upstream", model="small", tokens_sent=20))
    known = {name: told["error"][name] for name in ("retryable", "model", "tokens_sent")}
    assert known == {"retryable": True, "model": "small", "tokens_sent": 20}


def test_what_is_no_part_of_the_answer_makes_no_frame() -> None:
    made = Frames(Head("r1", "auto"), 0, include_usage=False)
    events = (Accepted(request_id="r1"), Note(kind="sources", data={}), Ping(), Chunk(seq=0))
    assert b"".join(map(made.of, events)) == b""


def test_a_ping_is_a_comment_without_a_blank_line() -> None:
    assert PING.startswith(b":")
    assert PING.count(b"\n") == 1


@pytest.mark.parametrize(
    "text", ["one two  three\n\n```py\nx=1\n```\nна́йти 👩‍👩‍👧", "data: [DONE]\n\n", '"}]}\r\n\x00']
)
def test_any_text_arrives_byte_for_byte(text: str) -> None:
    assert text_of(frames(Chunk(seq=0, text=text[:5]), Chunk(seq=1, text=text[5:]), DONE)) == text


def test_an_empty_answer_cut_by_the_limit_is_an_answer() -> None:
    completion = Completion()
    completion.see(Chunk(seq=0, reasoning="thinking"))
    done = Done(finish_reason="length", chunks=1)
    completion.see(done)
    choice = completion.body(done, Head("r1", "m"), 0)["choices"][0]
    answer = {"role": "assistant", "content": "", "refusal": None, "reasoning_content": "thinking"}
    assert choice["message"] == answer
    assert choice["finish_reason"] == "length"


def test_usage_keeps_the_details_of_the_first_answer() -> None:
    usage = Usage(
        prompt_tokens=40,
        completion_tokens=90,
        cached_tokens=40,
        completion_tokens_details={"reasoning_tokens": 60},
        prompt_tokens_details={"audio_tokens": 3},
    )
    assert usage_object(usage) == {
        "prompt_tokens": 40,
        "completion_tokens": 90,
        "total_tokens": 130,
        "prompt_tokens_details": {"audio_tokens": 3, "cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 60},
    }


def test_every_failure_code_has_a_status() -> None:
    assert set(CODES) <= set(STATUS)
    assert status_of(Failure(code="from_a_later_version")) == 500


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("bad_request", 400, "invalid_request_error"),
        ("model_not_found", 404, "invalid_request_error"),
        ("unauthorized", 401, "authentication_error"),
        ("overloaded", 429, "rate_limit_error"),
        ("unavailable", 503, "server_error"),
        ("deadline", 504, "server_error"),
        ("internal", 500, "server_error"),
    ],
)
def test_an_error_has_the_shape_and_status_that_sdks_expect(code: str, status: int, kind: str) -> None:
    failure = Failure(code=code, detail="why", param="p")
    error = error_object(failure)["error"]
    assert status_of(failure) == status
    assert {name: error[name] for name in ("message", "type", "param", "code")} == {
        "message": "why",
        "type": kind,
        "param": "p",
        "code": code,
    }


@pytest.mark.parametrize(("given_ms", "seconds"), [(7000, "7"), (250, "1"), (1001, "2"), (None, "1"), (0, "1")])
def test_when_to_come_back_is_in_the_headers_and_the_body(given_ms: int | None, seconds: str) -> None:
    for code in ("overloaded", "unavailable"):
        failure = Failure(code=code, retry_after_ms=given_ms)
        assert error_headers(failure)["Retry-After"] == seconds
        assert error_object(failure)["error"]["retry_after_ms"] == int(error_headers(failure)["retry-after-ms"])


def test_nobody_is_told_to_come_back_with_the_same_fault() -> None:
    assert error_headers(Failure(code="bad_request")) == {}
    assert "retry_after_ms" not in error_object(Failure(code="bad_request"))["error"]


def test_fields_go_on_as_they_are_less_those_of_the_transport() -> None:
    plain = {**ASKED, "stream": True, "stream_options": {"include_usage": True}, "top_k": 4, "tenant": "acme"}
    ask = ask_of(plain, {}, "acme")
    assert ask.body == {**ASKED, "top_k": 4}
    assert (ask.stream, ask.include_usage, ask.model) == (True, True, "auto")


def test_headers_override_the_body() -> None:
    headers = {"x-hasten-cache": "refresh", "x-hasten-deadline-ms": "1500"}
    ask = ask_of({**ASKED, "cache": {"mode": "off", "tags": ["a"]}, "deadline_ms": 9}, headers, "acme")
    assert ask.body["cache"] == {"mode": "refresh", "tags": ["a"]}
    assert ask.deadline_ms == ask.body["deadline_ms"] == 1500


@pytest.mark.parametrize(
    ("change", "headers", "param"),
    [
        ({"messages": []}, {}, "messages"),
        ({"messages": None}, {}, "messages"),
        ({"stream": "yes"}, {}, "stream"),
        ({"stream": 1}, {}, "stream"),
        ({"stream_options": []}, {}, None),
        ({"stream_options": "x"}, {}, "stream_options"),
        ({"stream_options": {"include_usage": 1}}, {}, "stream_options"),
        ({"cache": "off"}, {"x-hasten-cache": "off"}, "cache"),
        ({}, {"x-hasten-cache": "on"}, "x-hasten-cache"),
        ({}, {"x-hasten-deadline-ms": "-1"}, "x-hasten-deadline-ms"),
        ({}, {"x-hasten-deadline-ms": "1e3"}, "x-hasten-deadline-ms"),
        ({}, {"x-hasten-deadline-ms": "٣"}, "x-hasten-deadline-ms"),
        ({}, {"x-hasten-deadline-ms": "0"}, "deadline_ms"),
        ({"temperature": "hot"}, {}, "temperature"),
    ],
)
def test_a_fault_of_the_caller_names_the_field(
    change: dict[str, Any], headers: dict[str, str], param: str | None
) -> None:
    if param is None:
        ask_of({**ASKED, **change}, headers, "acme")
        return
    with pytest.raises(Failed) as raised:
        ask_of({**ASKED, **change}, headers, "acme")
    assert (raised.value.failure.code, raised.value.failure.param) == ("bad_request", param)


@pytest.mark.parametrize("claims", [("b",), (None, "acme", ""), ("ACME",), ({"a": 1},), (["acme"],), (0,)])
def test_another_tenant_than_the_keys_is_refused(claims: tuple[object, ...]) -> None:
    with pytest.raises(Failed) as raised:
        check_tenant("acme", *claims)
    assert status_of(raised.value.failure) == 403


def test_the_keys_own_tenant_may_be_named() -> None:
    check_tenant("acme", None, "acme")


@pytest.mark.parametrize(("given_id", "used"), [("abc-1_2", "abc-1_2"), ("a.b", None), ("A", None), ("a b\r\n", None)])
def test_a_request_id_is_used_only_if_it_may_be_in_a_subject(given_id: str, used: str | None) -> None:
    assert request_id_of({"x-request-id": given_id}) == used
    assert request_id_of({}) is None


def test_headers_tell_what_is_known_and_stay_headers_whatever_a_name_holds() -> None:
    head = Head("r1", "auto")
    assert head.headers() == {"x-hasten-request-id": "r1"}
    head.see(Note(kind="cache", data={"hit": "semantic", "entry_id": "e1", "similarity": 0.98765, "age_s": 12.9}))
    head.see(Done(finish_reason="stop", cache="semantic", model="mødel\r\nX-Evil: 1"))
    assert head.headers() == {
        "x-hasten-request-id": "r1",
        "x-hasten-cache": "semantic",
        "x-hasten-model": "m%C3%B8del%0D%0AX-Evil: 1",
        "x-hasten-entry": "e1",
        "x-hasten-similarity": "0.9877",
        "Age": "12",
    }


def test_a_route_without_a_hit_is_a_miss_and_tells_the_model() -> None:
    head = Head("r1", "auto")
    head.see(Note(kind="cache", data={"hit": None, "reason": "guard", "guard": "words"}))
    head.see(Note(kind="route", data={"model": "small"}))
    head.see(Note(kind="cache", data={"hit": None, "stored": False, "reason": "stale"}))
    assert head.headers() == {
        "x-hasten-request-id": "r1",
        "x-hasten-cache": "miss",
        "x-hasten-model": "small",
        "x-hasten-cache-reason": "guard words",
    }


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        ("Invalid enum value 'My secret' - at `$.role`", "Invalid enum value - at `$.role`"),
        ('Invalid value "a - at `b`\nc" - at `$.type`', "Invalid value - at `$.type`"),
        ("Invalid enum value 'x'", "Invalid enum value"),
        ("Expected `int`, got `str` - at `$.n`", "Expected `int`, got `str` - at `$.n`"),
        ("Expected `object`, got `array`", "Expected `object`, got `array`"),
    ],
)
def test_a_validation_error_is_told_without_the_value(problem: str, told: str) -> None:
    assert without_value(problem) == told
