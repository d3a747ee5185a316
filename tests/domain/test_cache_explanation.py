"""What an explanation says of two texts, of two partitions and of a plan."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.cache.domain import entry_of
from hasten.cache.explanation import changed_since, differences, differing, sources_of
from hasten.cache.past import Past
from hasten.cache.settings import Settings
from hasten.commands.explain import verdict
from hasten.fingerprint import fingerprint, parts_of, prompt_tag
from hasten.messages.cache import Answer, CacheLookup, CacheMiss, CachePut, Neighbour
from hasten.messages.chat import ChatRequest, parse_chat
from hasten.orchestrator.domain import plan_of
from hasten.orchestrator.permission import forbidden, outcome_of
from hasten.tag_table import TagTable

TIDES: dict[str, Any] = {"messages": [{"role": "user", "content": "Explain tides"}]}
SYSTEM = {"role": "system", "content": "Be brief."}


def request(**fields: Any) -> ChatRequest:
    return parse_chat({**TIDES, **fields})


def stored(of: ChatRequest) -> Any:
    print_ = fingerprint(of)
    put = CachePut(key=print_.key, partition=print_.partition, answer=Answer(text="x"), parts=parts_of(of))
    return entry_of(put, "acme", "era", 0, 0.0, Settings())


def looked(of: ChatRequest) -> CacheLookup:
    print_ = fingerprint(of)
    return CacheLookup(key=print_.key, partition=print_.partition, parts=parts_of(of))


@pytest.mark.parametrize(
    ("other", "parts"),
    [
        ({"max_tokens": 900}, ["sampling"]),
        ({"stop": ["\n"], "temperature": 0}, ["sampling"]),
        ({"num_ctx": 1024}, ["options"]),
        ({"response_format": {"type": "json_object"}}, ["response_format"]),
        ({"model": "other"}, ["model"]),
        ({"knowledge": ["faq"], "filter": {"lang": "en"}}, ["filter", "knowledge"]),
        ({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"}, ["tools"]),
        ({"examples": [{"user": "a", "assistant": "b"}]}, ["examples"]),
        ({"cache": {"scope": "user"}, "user": "u9"}, ["user"]),
        ({"messages": [SYSTEM, *TIDES["messages"]]}, ["system"]),
        ({"messages": [{"role": "user", "content": "hi"}, *TIDES["messages"]]}, ["history"]),
        ({"messages": [{"role": "user", "content": "hi"}, SYSTEM, *TIDES["messages"]]}, ["history", "system"]),
    ],
)
def test_the_parts_name_what_tells_two_partitions_apart(other: dict[str, Any], parts: list[str]) -> None:
    assert differing(looked(request(**other)), stored(request())) == parts
    assert differing(looked(request()), stored(request(**other))) == parts


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["auto", "big"]),
        "n": st.just(1),
        "max_tokens": st.sampled_from([None, 9]),
        "temperature": st.sampled_from([None, 0, 0.5]),
        "stop": st.sampled_from([None, ["x"]]),
        "tools": st.sampled_from([None, [{"type": "function", "function": {"name": "f"}}]]),
        "tool_choice": st.sampled_from([None, "none"]),
        "response_format": st.sampled_from([None, {"type": "json_object"}]),
        "knowledge": st.sampled_from([[], ["help"]]),
        "filter": st.sampled_from([{}, {"lang": "en"}]),
        "examples": st.sampled_from([[], [{"user": "a", "assistant": "b"}]]),
        "num_ctx": st.sampled_from([1, 2]),
        "metadata": st.sampled_from([{}, {"k": "v"}]),
        "deadline_ms": st.sampled_from([5, 6]),
        "user": st.sampled_from(["u1", "u2"]),
    },
)
BEFORE = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["system", "developer", "user", "assistant"]),
        st.sampled_from(["a", "b", "", [{"type": "text", "text": "a"}], [{"type": "text", "text": "a", "x": 1}]]),
    ),
    max_size=2,
)
REQUESTS = st.builds(
    lambda options, before, scoped: {
        **options,
        "messages": [*before, *TIDES["messages"]],
        "cache": {"scope": "user" if scoped and "user" in options else "tenant"},
    },
    OPTIONS,
    BEFORE,
    st.booleans(),
)


@settings(max_examples=400, deadline=None)
@given(REQUESTS, OPTIONS, st.integers(0, 2))
def test_two_requests_have_equal_parts_exactly_when_they_have_one_partition(one: Any, more: Any, changes: int) -> None:
    other = one | dict(list(more.items())[:changes])
    left, right = (parse_chat(msgspec.json.encode(body)) for body in (one, other))
    assert (parts_of(left) == parts_of(right)) == (fingerprint(left).partition == fingerprint(right).partition)


def test_where_a_system_turn_stands_is_part_of_the_history() -> None:
    hi = {"role": "user", "content": "hi"}
    one, other = request(messages=[SYSTEM, hi, hi]), request(messages=[hi, SYSTEM, hi])
    assert differing(looked(one), stored(other)) == ["history"]


def test_parts_are_equal_where_partitions_are() -> None:
    same = request(deadline_ms=5, user="u1", cache={"tags": ["a"]}, metadata={"k": "v"})
    assert parts_of(same) == parts_of(request())
    assert differing(CacheLookup(key="k"), stored(request())) == ["unknown"]


def test_a_prompt_is_a_tag_by_its_hash_and_no_text() -> None:
    assert prompt_tag(request()) is None
    under = request(messages=[SYSTEM, *TIDES["messages"]])
    other = request(messages=[{**SYSTEM, "content": "Be long."}, *TIDES["messages"]])
    assert prompt_tag(under) == f"prompt:{parts_of(under)['system']}" != prompt_tag(other)
    assert plan_of(under).tags == [prompt_tag(under)]
    assert "brief" not in str(parts_of(under))


@pytest.mark.parametrize(
    ("asked", "kept", "only_asked", "only_stored"),
    [
        ("Does A replace B?", "Does B replace A?", [], []),
        ("A 17% fee?", "A 18% fee?", ["17%"], ["18%"]),
        ("the the cat", "the cat", ["the"], []),
        ("Ticket 48213-b, please", "ticket 48231-b", ["48213-b", "please"], ["48231-b"]),
        ("x " * 40, "y", ["x"] * 16, ["y"]),
    ],
)
def test_the_words_that_differ(asked: str, kept: str, only_asked: list[str], only_stored: list[str]) -> None:
    assert differences(asked, kept) == (only_asked, only_stored)


def test_what_changed_since_an_entry_was_read() -> None:
    table = TagTable(limit=100, floor=5)
    table.change("acme", "prices:7", 12)
    table.change("*", "prices", 13)
    table.change("other", "plans", 14)
    assert changed_since(table, "acme", ["prices:7", "plans"], 11) == {"prices:7": 13}
    assert changed_since(table, "acme", ["prices:8", "plans:1"], 12) == {"prices:8": 13}
    assert changed_since(table, "acme", ["plans"], 13) == {}
    assert changed_since(table, "acme", ["plans"], 4) == {"*": 5}


def test_the_past_is_bounded_and_holds_no_answers() -> None:
    past = Past(most=2)
    for seed in (1, 2, 1, 3):
        past.keep(stored(request(seed=seed)))
    assert past.recall("acme", fingerprint(request(seed=2)).key) is None
    kept = past.recall("acme", fingerprint(request(seed=1)).key)
    assert kept is not None
    assert (kept.text, kept.answer.text) == ("", "")
    assert past.recall("other", fingerprint(request(seed=1)).key) is None


def test_the_sources_of_an_entry_have_their_versions_and_broken_notes_none() -> None:
    notes: list[dict[str, Any]] = [
        {"kind": "sources", "data": {"passages": [{"id": "help/a#0", "version": 7}, 3]}},
        {"kind": "sources"},
    ]
    put = CachePut(key="k", answer=Answer(text="x", notes=notes))
    assert sources_of(entry_of(put, "acme", "era", 0, 0.0, Settings())) == ["help/a#0@7"]


@pytest.mark.parametrize(
    ("fields", "named", "why"),
    [
        ({}, {}, ""),
        ({"cache": {"mode": "off"}}, {"exact", "meaning", "share", "store"}, "cache.mode is off"),
        ({"temperature": 0.7}, {"exact", "meaning", "share", "store"}, "temperature 0.7 is above 0"),
        ({"cache": {"mode": "refresh"}}, {"exact", "meaning", "share"}, "made anew"),
        ({"cache": {"mode": "exact"}}, {"meaning"}, "cache.mode is exact"),
        ({"cache": {"store": False}}, {"store"}, "cache.store is false"),
        ({"messages": [{"role": "user", "content": "hi"}, *TIDES["messages"]]}, {"meaning"}, "2 turns"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, {"meaning"}, "not the plain text"),
    ],
)
def test_what_a_plan_forbids_has_its_reason(fields: dict[str, Any], named: set[str], why: str) -> None:
    made = request(**fields)
    found = forbidden(made, plan_of(made))
    assert found.keys() == set(named)
    assert all(why in reason for reason in found.values())


def test_what_is_announced_of_the_cache() -> None:
    hit = {"hit": "semantic", "entry_id": "e1", "similarity": 0.9}
    assert outcome_of("semantic", hit, None, asked=True) == {"entry_id": "e1", "similarity": 0.9}
    miss = CacheMiss(reason="guard", nearest="e1", similarity=0.9, guard="words")
    told = {"reason": "guard", "guard": "words", "entry_id": "e1", "similarity": 0.9}
    assert outcome_of("miss", {}, miss, asked=True) == told
    assert outcome_of("miss", {}, None, asked=False) == {"reason": "off"}
    assert outcome_of("miss", {}, None, asked=True) == {"reason": "unavailable"}
    assert outcome_of("shared", {"hit": "shared"}, miss, asked=True) == {}


def test_a_verdict_in_words() -> None:
    said = Neighbour(entry_id="e", verdict="guard", guard="words", asked_only=["boots"], stored_only=["shoes"])
    assert verdict(said) == "guard words: only asked: boots; only stored: shoes"
    assert (
        verdict(Neighbour(entry_id="e", verdict="guard", guard="order"))
        == "guard order: the same words in another order"
    )
    assert verdict(Neighbour(entry_id="e", verdict="hit", asked_only=["x"])) == "hit"
    assert verdict(Neighbour(entry_id="e", verdict="stale")) == "stale"
