"""What a request may do, case by case."""

import msgspec
import pytest

from hasten.fingerprint import fingerprint
from hasten.messages.chat import ChatRequest, parse_chat
from hasten.messages.failure import Failed
from hasten.orchestrator.domain import plan_of


def request(**fields: object) -> ChatRequest:
    return parse_chat({"messages": [{"role": "user", "content": "Explain tides"}], **fields})


@pytest.mark.parametrize(
    ("fields", "exact", "semantic", "share", "store"),
    [
        ({}, True, True, True, True),
        ({"temperature": 0}, True, True, True, True),
        ({"temperature": 0.7}, False, False, False, False),
        ({"temperature": 0.7, "cache": {"mode": "exact"}}, True, False, True, True),
        ({"cache": {"mode": "exact"}}, True, False, True, True),
        ({"cache": {"mode": "off"}}, False, False, False, False),
        ({"cache": {"mode": "refresh"}}, False, False, False, True),
        ({"cache": {"store": False}}, True, True, True, False),
    ],
)
def test_policy_decides_what_is_read_shared_and_stored(
    fields: dict[str, object], exact: bool, semantic: bool, share: bool, store: bool
) -> None:
    plan = plan_of(request(**fields))
    assert (plan.read_exact, plan.read_semantic, plan.share, plan.store) == (exact, semantic, share, store)


TURNS = [{"role": "user", "content": "Name a sea"}, {"role": "assistant", "content": "The Baltic"}]
SECOND = [*TURNS, {"role": "user", "content": "How salty is it?"}]


@pytest.mark.parametrize(
    ("fields", "embeds", "searchable"),
    [
        ({}, True, True),
        ({"temperature": 0.7}, True, False),
        ({"cache": {"mode": "off"}}, True, False),
        ({"cache": {"mode": "exact"}}, True, False),
        ({"cache": {"mode": "refresh"}}, True, True),
        ({"messages": SECOND}, True, False),
        ({"messages": SECOND, "knowledge": ["sea"]}, True, False),
        ({"model": "m"}, True, True),
        ({"model": "m", "cache": {"mode": "refresh"}}, True, True),
        ({"model": "m", "cache": {"mode": "off"}}, False, False),
        ({"model": "m", "messages": SECOND}, False, False),
    ],
)
def test_the_router_gets_the_vector_of_what_it_may_choose_for(
    fields: dict[str, object], embeds: bool, searchable: bool
) -> None:
    plan = plan_of(request(**fields))
    assert (plan.embeds, plan.searchable) == (embeds, searchable)


def test_agent_turns_are_never_looked_up_by_meaning() -> None:
    turns = [
        {"role": "user", "content": "list files in /srv/a"},
        {"role": "assistant", "content": "a.txt b.txt"},
        {"role": "user", "content": "now delete b.txt"},
    ]
    tool = {"role": "tool", "tool_call_id": "c1", "content": "deleted"}
    for messages in (turns, [*turns, tool], [turns[0], tool]):
        assert not plan_of(parse_chat({"messages": messages})).read_semantic
    keys = {fingerprint(parse_chat({"messages": turns[:count]})).key for count in (1, 2, 3)}
    assert len(keys) == 3


@pytest.mark.parametrize(
    "other",
    [
        {"max_tokens": 900},
        {"stop": ["\n"]},
        {"temperature": 0},
        {"top_p": 0.5},
        {"seed": 1},
        {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"},
        {"presence_penalty": 1.0},
        {"num_ctx": 1024},
        {"response_format": {"type": "json_object"}},
        {"model": "other"},
        {"knowledge": ["faq"]},
        {"filter": {"lang": "en"}},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"messages": [{"role": "user", "content": "Explain tides", "ts": 1}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Explain tides", "lang": "no"}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": word} for word in ("Explain", "tides")]}]},
        {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Explain tides"}]},
        {"cache": {"scope": "user"}, "user": "u9"},
    ],
)
def test_every_field_that_can_change_the_answer_is_in_key_and_partition(other: dict[str, object]) -> None:
    plain, changed = fingerprint(request()), fingerprint(request(**other))
    assert plain.key != changed.key
    turn_changed = "messages" in other and len(other["messages"]) == 1  # type: ignore[arg-type]
    assert turn_changed or plain.partition != changed.partition


@pytest.mark.parametrize(
    "same",
    [
        {"stream": True, "stream_options": {"include_usage": True}},
        {"deadline_ms": 5},
        {"metadata": {"k": "v"}, "store": False},
        {"user": "u1"},
        {"cache": {"tags": ["a"]}},
        {"top_p": None},
        {"tools": [], "tool_choice": "none"},
        {"model": "auto", "n": 1, "knowledge": [], "filter": {}, "examples": [], "logprobs": None},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Explain tides"}]}]},
    ],
)
def test_what_cannot_change_the_answer_is_not(same: dict[str, object]) -> None:
    raw = msgspec.json.encode({"messages": [{"role": "user", "content": "Explain tides"}], **same})
    assert fingerprint(request()) == fingerprint(request(**same)) == fingerprint(parse_chat(raw))


def test_developer_and_system_are_one_role_and_their_place_counts() -> None:
    def key(*messages: dict[str, str]) -> str:
        return fingerprint(parse_chat({"messages": list(messages)})).key

    hi, metric = {"role": "user", "content": "hi"}, "Use metric units."
    developer, system = {"role": "developer", "content": metric}, {"role": "system", "content": metric}
    assert key(developer, hi) == key(system, hi)
    assert key(hi, developer) != key(developer, hi)


def test_more_answers_than_a_stream_has_place_for_are_refused_by_name() -> None:
    with pytest.raises(Failed) as refused:
        plan_of(request(n=2))
    assert (refused.value.failure.code, refused.value.failure.param) == ("unsupported", "n")


def test_log_probabilities_are_a_need_and_neither_read_shared_nor_stored() -> None:
    plan = plan_of(request(logprobs=True, top_logprobs=2))
    assert plan.needs == ["logprobs"]
    assert not any((plan.read_exact, plan.read_semantic, plan.share, plan.store))
    plain = plan_of(request(n=1, logprobs=False, top_logprobs=0))
    assert (plain.needs, plain.store) == ([], True)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({}, "messages"),
        ({"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}, "max_tokens"),
        ({"messages": [{"role": "user", "content": "x"}], "temperature": 3}, "temperature"),
        ({"messages": [{"role": "user", "content": "x"}], "top_p": "high"}, "top_p"),
        ({"messages": [{"role": "user", "content": "x"}], "cache": {"scope": "user"}}, "user"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role"),
    ],
)
def test_bad_requests_name_the_field(body: dict[str, object], param: str) -> None:
    with pytest.raises(Failed) as refused:
        parse_chat(body)
    assert (refused.value.failure.code, refused.value.failure.param) == ("bad_request", param)


def test_the_newer_name_of_the_token_limit_wins() -> None:
    assert request(max_tokens=40, max_completion_tokens=2).max_tokens == 2
