"""The rules of the cache without a server: ids, lifetimes, what is kept in memory, and the watch on the embedder."""

import uuid
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.cache.canary import Canary
from hasten.cache.domain import (
    Entry,
    entry_id,
    entry_of,
    hit,
    least_similarity,
    lifetime_s,
    named_tags,
    pair_marks,
    payload_of,
    read_payload,
    refusal,
    threshold_of,
    worn,
)
from hasten.cache.guards import Reading
from hasten.cache.hot import HotSet
from hasten.cache.lookup import unsuited
from hasten.cache.past import Past
from hasten.cache.settings import Settings
from hasten.cache.shelf import stale_where
from hasten.cache.vector import unit_vector
from hasten.changes import expanded, reaching
from hasten.fingerprint import question_hash
from hasten.messages.cache import Answer, CacheLookup, CachePut, Invalidate

NOW = 1_700_000_000_000.0
SETTINGS = Settings()


def entry(key: str = "k", tenant: str = "acme", **fields: Any) -> Entry:
    put = CachePut(key=key, answer=Answer(text="an answer", model="m1"), **{"text": "a question", **fields})
    return entry_of(put, tenant, "1@now", 100, NOW, SETTINGS)


@given(st.text(), st.text(), st.text(), st.text())
def test_an_id_is_of_one_tenant_and_one_key(tenant: str, key: str, other: str, another: str) -> None:
    """Joining the two without structure would make `a`+`bc` and `ab`+`c` one entry."""
    made = entry_id(tenant, key)
    assert str(uuid.UUID(made)) == made
    assert (made == entry_id(other, another)) == ((tenant, key) == (other, another))


@given(st.text(max_size=20), st.lists(st.text(max_size=9), max_size=4), st.integers(0, 200), st.text(max_size=5))
def test_an_entry_survives_the_store(text: str, tags: list[str], read_seq: int, user: str) -> None:
    made = entry(text=text, tags=tags, read_seq=read_seq, user=user)
    payload = msgspec.json.decode(msgspec.json.encode(payload_of(made)))
    assert read_payload(made.id, payload) == made
    assert made.read_seq == min(read_seq, 100)
    assert set(payload["marks"]) == set(expanded(made.tags))


@pytest.mark.parametrize(
    "payload", [{}, {"answer": "{"}, {"answer": None}, {"answer": "{}"}, {"answer": '{"text":"x"}'}]
)
def test_a_payload_that_is_none_of_ours_is_no_entry(payload: dict[str, Any]) -> None:
    assert read_payload(str(uuid.uuid4()), payload) is None


def test_only_whole_answers_may_be_stored() -> None:
    assert refusal(Answer(text="x"), SETTINGS) is None
    calls = Answer(text="", tool_calls=[{"id": "1"}], finish_reason="tool_calls")
    assert refusal(calls, SETTINGS) == "tool_calls"
    assert refusal(calls, Settings(store_tool_calls=True)) is None
    for cut in ("length", "content_filter", "error"):
        answer = Answer(text="x", finish_reason=cut, tool_calls=[{"id": "1"}])
        assert refusal(answer, Settings(store_tool_calls=True)) == "truncated"
    assert refusal(Answer(text=" ", finish_reason="tool_calls"), Settings(store_tool_calls=True)) == "empty"


@given(st.none() | st.floats(-10, 1e9))
def test_nothing_lives_longer_than_the_operator_allows(asked: float | None) -> None:
    assert lifetime_s(asked, SETTINGS) <= SETTINGS.max_ttl_s
    assert lifetime_s(None, SETTINGS) == SETTINGS.ttl_s


@given(st.floats(0, 1e7), st.none() | st.floats(0, 1e4))
def test_an_entry_wears_out_by_its_own_life_or_the_callers_patience(age_s: float, max_age_s: float | None) -> None:
    made = entry()
    patience_s = SETTINGS.ttl_s if max_age_s is None else min(max_age_s, SETTINGS.ttl_s)
    if abs(age_s - patience_s) > 0.01:
        assert worn(made, NOW + age_s * 1000, max_age_s) == (age_s > patience_s)


@pytest.mark.parametrize(
    ("tenant", "collections", "threshold"),
    [
        ("acme", [], 0.95),
        ("acme", ["news"], 0.95),
        ("acme", ["faq"], 0.93),
        ("acme", ["faq", "health"], 0.995),
        ("bank", [], 1.0),
        ("bank", ["faq"], 1.0),
    ],
)
def test_the_strictest_threshold_counts(tenant: str, collections: list[str], threshold: float) -> None:
    named = {"faq": 0.93, "health": 0.995, "tenant:bank": 1.0}
    settings = Settings(threshold=0.95, thresholds=named)
    assert threshold_of(CacheLookup(key="k", collections=collections), tenant, settings) == threshold


@pytest.mark.parametrize(("distance", "similarity"), [(None, -1.0), (0.0, 1.0), (-1.0, 1.0), (0.1, 0.9), (2.0, -1.0)])
def test_a_caller_may_ask_for_a_similarity(distance: float | None, similarity: float) -> None:
    assert least_similarity(CacheLookup(key="k", max_distance=distance)) == similarity


def test_what_an_invalidation_names() -> None:
    body = Invalidate(tags=["t", "t"], documents=["help/a"], entries=["e"], models=["m"])
    assert named_tags(body) == ["t", "document:help/a", "entry:e", "model:m"]


def test_a_rejected_pair_is_known_from_both_sides_and_whatever_its_spacing() -> None:
    def marks(tenant: str, id_: str, stored: str | None, asked: str) -> set[str]:
        return set(pair_marks(tenant, id_, None if stored is None else question_hash(stored), question_hash(asked)))

    rejected = marks("acme", "id-1", "How high is it?", "how tall is it")
    assert rejected & marks("acme", "id-2", "how tall  is it?", "HOW HIGH IS IT")
    assert not rejected & marks("other", "id-1", "How high is it?", "how tall is it")
    assert not rejected & marks("acme", "id-2", "How high is it?", "how wide is it")
    assert rejected & marks("acme", "id-1", None, "How tall is it?")
    assert not rejected & marks("acme", "id-2", None, "How tall is it?")
    assert question_hash(" A  b?! ") == question_hash("a b") != question_hash("a c")


@given(
    st.lists(st.sampled_from(["p:1", "p:2", "p", "q:1", "q", "r"]), max_size=4),
    st.sampled_from(["p:1", "p", "q", "r:1"]),
)
def test_the_broom_finds_what_the_fence_refuses(tags: list[str], changed: str) -> None:
    marks = payload_of(entry(tags=tags))["marks"]
    (where,) = stale_where("acme", reaching([changed]), 101)
    wanted = where.equal["marks"]
    assert isinstance(wanted, list)
    refused = changed in tags or any(tag.startswith(f"{changed}:") or changed.startswith(f"{tag}:") for tag in tags)
    assert bool(set(wanted) & set(marks)) == refused


def test_the_broom_touches_nothing_that_was_read_since() -> None:
    (where,) = stale_where("acme", None, 50)
    assert where.below == {"read_seq": 50.0}
    assert where.equal == {"owner": "acme"}
    assert [len(one.equal["marks"]) for one in stale_where(None, [f"t{n}" for n in range(300)], 5)] == [128, 128, 44]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "large",
    [
        {"text": "x" * 10_000},
        {"answer": Answer(text="a", notes=[{"kind": "sources", "data": {"x": "x" * 10_000}}])},
        {"answer": Answer(text="a", tool_calls=[{"x": "x" * 10_000}])},
        {"tags": ["x" * 10_000]},
        {"parts": {"model": "x" * 10_000}},
    ],
)
def test_all_that_a_put_may_make_large_counts_as_memory(large: dict[str, Any]) -> None:
    assert msgspec.structs.replace(entry("a"), **large).size > 10_000


def test_of_the_past_no_large_entry_is_kept() -> None:
    past = Past()
    past.keep(entry("a"))
    past.keep(entry("b", tags=["x" * 100_000]))
    assert past.recall("acme", "a") is not None
    assert past.recall("acme", "b") is None


@given(st.lists(st.tuples(st.sampled_from("pgd"), st.integers(0, 6), st.integers(0, 3000)), max_size=60))
def test_the_hot_set_keeps_its_bounds_and_its_sum(steps: list[tuple[str, int, int]]) -> None:
    hot = HotSet(4, 8000, 1e9)
    for step, number, length in steps:
        key = f"k{number}"
        if step == "p":
            hot.put(entry(key, text="x" * length), 0.0)
        elif step == "g":
            found = hot.get("acme", key, 0.0)
            assert found is None or found.key == key
        else:
            hot.drop("acme", key)
            assert hot.get("acme", key, 0.0) is None
        assert len(hot) <= 4
        assert hot.size <= 8000
    kept = [found for n in range(7) if (found := hot.get("acme", f"k{n}", 0.0))]
    assert hot.size == sum(one.size for one in kept)
    assert len(hot) == len(kept)


async def test_the_hot_set_forgets_the_least_recently_used_and_the_old() -> None:
    hot = HotSet(2, 10**6, 10.0)
    hot.put(entry("a"), 0.0)
    hot.put(entry("b"), 5.0)
    assert hot.get("acme", "a", 6.0) is not None
    hot.put(entry("c"), 6.0)
    assert hot.get("acme", "b", 6.0) is None
    assert hot.get("other", "a", 6.0) is None
    assert hot.get("acme", "a", 10.5) is None, "to be compared with the store again"
    await hot.keep_only(lambda one: False)
    assert (len(hot), hot.size) == (0, 0)


def test_vectors_of_another_kind_are_none() -> None:
    made = unit_vector(np.array([3, 4, 0], "<f4").tobytes(), 3)
    assert made is not None
    assert np.allclose(made, [0.6, 0.8, 0])
    for bad in (b"", b"abc", np.zeros(3, "<f4").tobytes(), np.array([1, np.nan, 0], "<f4").tobytes()):
        assert unit_vector(bad, 3) is None
    assert unit_vector(np.array([1, np.inf, 0], "<f4").tobytes(), 3) is None
    assert unit_vector(np.ones(4, "<f4").tobytes(), 3) is None


def test_the_canary_dies_of_sameness_and_comes_back() -> None:
    canary = Canary(0.85)
    same = np.array([1, 0], np.float32)
    for number in range(20):
        canary.look(frozenset({f"w{number}"}), same)
    assert canary.dead
    for number in range(40):
        angle = 2.4 * number
        canary.look(frozenset({f"x{number}"}), np.array([np.cos(angle), np.sin(angle)], np.float32))
    assert not canary.dead


def test_the_canary_does_not_mind_questions_about_one_thing() -> None:
    canary = Canary(0.85)
    for number in range(40):
        canary.look(frozenset({"price", f"w{number}"}), np.array([1, 0], np.float32))
    assert not canary.dead


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hotel wifi?", "short"),
        ("", "short"),
        ("ping", "short"),
        ("What is my account balance?", "uncacheable"),
        ("word " * 500, "uncacheable"),
        ("How do I reset a password?", None),
    ],
)
def test_what_is_not_looked_up_by_meaning(text: str, reason: str | None) -> None:
    assert unsuited(text, Reading(text), SETTINGS) == reason


def test_an_expired_entry_lasts_as_long_as_the_operator_allows_and_says_so() -> None:
    made = entry()
    end = made.expires_ms
    assert not worn(made, end + 4_000, None, stale_s=5)
    assert worn(made, end + 5_000, None, stale_s=5)
    assert worn(made, end + 4_000, SETTINGS.ttl_s, stale_s=5), "the caller's patience is not the operator's to stretch"
    assert (hit(made, "exact", end - 1).stale, hit(made, "exact", end).stale) == (False, True)
