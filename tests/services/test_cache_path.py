"""The orchestrator and the cache together, both real: explained, rejected, announced, and kept as the caller allows."""

import asyncio
from typing import Any

import pytest
from cache_rig import until
from path_rig import OTHER, QUESTION, SAME, Rig
from scripted_peers import ANSWER

from hasten.client import Hasten
from hasten.fingerprint import fingerprint
from hasten.messages.cache import CACHE_PUT, Answer, CachePut, Invalidate, Stored
from hasten.messages.chat import CachePolicy, Chunk, Done, Usage, parse_chat
from hasten.messages.failure import Failed
from hasten.nats_server import NatsServer

SYSTEM = {"role": "system", "content": "Be brief."}


# Why it hits and misses.


async def test_explain_says_what_asking_would_bring_and_generates_nothing(rig: Rig) -> None:
    assert (await rig.hasten.explain(QUESTION)).reason == "absent"
    await rig.stored(QUESTION)
    counted = rig.cache.report()["lookups"]
    exact = await rig.hasten.explain(QUESTION)
    assert (exact.outcome, exact.may_not) == ("exact", {})
    by_meaning = await rig.hasten.explain(SAME)
    assert (by_meaning.outcome, by_meaning.entry_id) == ("semantic", exact.entry_id)
    refused = await rig.hasten.explain(OTHER)
    assert (refused.outcome, refused.reason) == ("miss", "guard")
    assert refused.lookup is not None
    near = refused.lookup.nearest[0]
    assert (near.asked_only, near.stored_only, near.entry_id) == (["boots"], ["shoes"], exact.entry_id)
    assert len(rig.peers.generated) == 1
    assert rig.cache.report()["puts"] == {"stored": 1}
    assert rig.cache.report()["lookups"] == counted, "nobody was answered"


async def test_the_threshold_that_is_explained_is_that_of_the_collections_asked(rig: Rig) -> None:
    def body(question: str) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": question}], "knowledge": ["strict"]}

    await rig.stored(body(QUESTION))
    found = await rig.hasten.explain(body(SAME))
    assert (found.outcome, found.reason) == ("miss", "disabled")
    assert (await rig.ask(body(SAME))).cache == "miss"


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"max_tokens": 900}, "sampling"),
        ({"num_ctx": 16384}, "options"),
        ({"model": "other"}, "model"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"user": "u1", "cache": {"scope": "user"}}, "user"),
        ({"messages": [SYSTEM, {"role": "user", "content": QUESTION}]}, "system"),
    ],
)
async def test_a_field_that_changes_the_answer_is_a_miss_that_names_it(
    rig: Rig, options: dict[str, Any], part: str
) -> None:
    await rig.stored(QUESTION)
    body = {"messages": [{"role": "user", "content": QUESTION}], **options}
    found = await rig.hasten.explain(body)
    assert (found.outcome, found.reason) == ("miss", "absent")
    assert found.lookup is not None
    assert [one.differs for one in found.lookup.elsewhere] == [[part]]
    assert (await rig.ask(body)).cache == "miss"


async def test_turns_of_a_conversation_are_found_by_their_key_alone(rig: Rig) -> None:
    first = [{"role": "user", "content": "list files in /srv/a"}]
    second = [*first, {"role": "assistant", "content": "a.txt b.txt"}, {"role": "user", "content": "now delete b.txt"}]
    third = [*second, {"role": "tool", "tool_call_id": "c1", "content": "deleted"}]
    for turns in (first, second, third):
        await rig.stored(turns)
    assert len(rig.peers.generated) == 3
    found = await rig.hasten.explain(second)
    assert (found.outcome, "meaning" in found.may_not) == ("exact", True)


async def test_another_tenant_is_told_nothing(rig: Rig, nats_server: NatsServer) -> None:
    await rig.stored(QUESTION)
    async with Hasten.connect(nats_server.url, tenant="other") as other:
        for asked in (QUESTION, SAME):
            found = await other.explain(asked)
            assert found.lookup is not None
            assert (found.reason, found.lookup.nearest, found.lookup.elsewhere) == ("absent", [], [])


async def test_what_may_not_be_done_is_explained(rig: Rig) -> None:
    await rig.stored(QUESTION)
    off = await rig.hasten.explain(QUESTION, cache={"mode": "off"})
    assert (off.outcome, off.reason) == ("miss", "off")
    assert off.may_not["exact"] == "cache.mode is off"
    exact = await rig.hasten.explain(SAME, cache={"mode": "exact"})
    assert (exact.outcome, exact.reason, exact.may_not) == ("miss", "absent", {"meaning": "cache.mode is exact"})
    with pytest.raises(Failed, match="n must be 1"):
        await rig.hasten.explain(QUESTION, n=2)


async def test_a_request_that_asks_for_it_is_explained_in_its_note(rig: Rig) -> None:
    await rig.stored(QUESTION)
    missed = await rig.hasten.ask(OTHER, explain=True, cache={"store": False})
    note = missed.notes["cache"]
    assert (note["hit"], note["reason"], note["guard"]) == (None, "guard", "words")
    assert note["explained"]["nearest"][0]["asked_only"] == ["boots"]
    assert note["may_not"] == {"store": "cache.store is false"}
    hit = await rig.hasten.ask(SAME, explain=True)
    assert (hit.cache, hit.notes["cache"]["explained"]["nearest"][0]["verdict"]) == ("semantic", "hit")
    assert "explained" not in (await rig.hasten.ask(SAME)).notes["cache"]


# What is announced.


async def test_the_end_of_a_request_tells_the_reason_and_no_word_of_it(rig: Rig) -> None:
    first = await rig.stored(QUESTION)
    refused, same = await rig.ask(OTHER, cache={"store": False}), await rig.ask(SAME)
    off = await rig.ask(QUESTION, cache={"mode": "off"})
    again = await rig.ask(QUESTION)
    told = {one.request_id: one for one in rig.finished}
    entry = told[same.request_id].entry_id
    assert (told[first.request_id].reason, told[off.request_id].reason) == ("absent", "off")
    miss = told[refused.request_id]
    assert (miss.reason, miss.guard, miss.entry_id) == ("guard", "words", entry)
    assert miss.similarity is not None
    assert told[same.request_id].similarity == pytest.approx(1.0)
    assert (told[again.request_id].cache, told[again.request_id].entry_id) == ("exact", entry)
    assert "shoes" not in str(told)


# What is rejected.


async def test_a_wrong_hit_is_rejected_by_its_request_and_never_comes_back(rig: Rig) -> None:
    await rig.stored(QUESTION)
    wrong = await rig.ask(SAME)
    assert wrong.cache == "semantic"

    async def removed() -> bool:
        try:
            return bool((await rig.hasten.reject(wrong.request_id)).entries)
        except Failed:
            return False

    await until(removed)
    assert (await rig.stored(SAME)).cache == "miss"
    again = await rig.hasten.explain(QUESTION)
    assert (again.outcome, again.reason) == ("miss", "rejected"), "nor the other way round"
    with pytest.raises(Failed, match="take the id of a request that was answered by meaning"):
        await rig.hasten.reject("never-asked")


async def test_followers_of_a_wrong_hit_can_reject_it_too(rig: Rig) -> None:
    await rig.stored(QUESTION)
    answers = await asyncio.gather(*(rig.ask(SAME) for _ in range(5)))
    assert {one.cache for one in answers} == {"semantic"}

    async def known(request_id: str) -> bool:
        try:
            return bool((await rig.hasten.invalidate(Invalidate(request_id=request_id, dry_run=True))).listed)
        except Failed:
            return False

    for one in answers:
        await until(lambda one=one: known(one.request_id))


# What the caller allows.


async def test_a_caller_decides_what_is_kept_and_for_how_long(rig: Rig) -> None:
    for number, policy in enumerate(({"store": False}, {"ttl_s": 0}, {"mode": "off"}, {"max_age_s": 0})):
        body = {"messages": [{"role": "user", "content": QUESTION}], "seed": number}
        await rig.ask(body, cache=policy)
        again = await rig.ask(body)
        assert again.cache == "miss", policy
    assert rig.cache.report()["puts"].get("ttl", 0) == 2


async def test_a_refresh_is_not_read_and_stored_anew(rig: Rig) -> None:
    await rig.stored(QUESTION)
    rig.peers.answer = "The tide has changed."
    await rig.stored(QUESTION, cache={"mode": "refresh"})
    again = await rig.ask(QUESTION)
    assert (again.cache, again.text) == ("exact", "The tide has changed.")


async def test_exact_only_is_not_answered_by_meaning(rig: Rig) -> None:
    await rig.stored(QUESTION)
    assert (await rig.ask(SAME, cache={"mode": "exact", "store": False})).cache == "miss"
    assert (await rig.ask(SAME, cache={"max_distance": 0, "store": False})).cache == "miss"
    assert (await rig.ask(QUESTION, cache=CachePolicy(mode="exact"))).cache == "exact"
    assert (await rig.ask(SAME)).cache == "semantic"


async def test_what_is_scoped_to_a_user_answers_nobody_else(rig: Rig) -> None:
    await rig.stored(QUESTION, user="u1", cache={"scope": "user"})
    for asked in (QUESTION, SAME):
        assert (await rig.ask(asked, user="u1", cache={"scope": "user", "store": False})).text == ANSWER
        assert (await rig.ask(asked, user="u2", cache={"scope": "user", "store": False})).cache == "miss"
        assert (await rig.ask(asked, cache={"store": False})).cache == "miss"
    with pytest.raises(Failed, match="must be given when"):
        await rig.ask(QUESTION, cache={"scope": "user"})


async def test_answers_given_under_a_system_text_go_with_it(rig: Rig) -> None:
    under = [SYSTEM, {"role": "user", "content": QUESTION}]
    await rig.stored(under)
    await rig.stored(QUESTION)
    (tag,) = [tag for tag in (await rig.hasten.explain(under)).tags if tag.startswith("prompt:")]
    assert (await rig.hasten.invalidate(Invalidate(tags=[tag]))).entries == 1
    assert (await rig.ask(under, cache={"store": False})).cache == "miss"
    assert (await rig.ask(QUESTION)).cache == "exact"
    await rig.stored(under, cache={"tags": ["prompt:support"]})
    assert (await rig.hasten.invalidate(Invalidate(tags=["prompt:support"]))).entries == 1


async def test_a_stored_answer_is_streamed_whole_with_its_reasoning_and_tool_calls(rig: Rig) -> None:
    calls = [{"id": "", "type": "function", "function": {"name": name, "arguments": "{}"}} for name in ("f", "g")]
    words = " ".join(f"word{number}" for number in range(100))
    usage = Usage(
        prompt_tokens=9,
        completion_tokens=70,
        completion_tokens_details={"reasoning_tokens": 8},
        prompt_tokens_details={"audio_tokens": 3},
    )
    answer = Answer(text=words, finish_reason="tool_calls", model="m", usage=usage, reasoning="think", tool_calls=calls)
    print_ = fingerprint(parse_chat({"messages": [{"role": "user", "content": QUESTION}]}))
    put = CachePut(key=print_.key, partition=print_.partition, text=QUESTION, answer=answer)
    assert isinstance(await rig.hasten.bus.request(CACHE_PUT, put, tenant="acme"), Stored)
    events = [event async for event in rig.hasten.chat(QUESTION)]
    chunks, done = [event for event in events if isinstance(event, Chunk)], events[-1]
    assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
    assert "".join(chunk.reasoning for chunk in chunks) == "think"
    assert "".join(chunk.text for chunk in chunks) == words
    assert len([chunk for chunk in chunks if chunk.text]) > 1
    numbered = [{"index": at, **call} for at, call in enumerate(calls)]
    assert [chunk.tool_calls for chunk in chunks if chunk.tool_calls] == [numbered], "clients merge by the index alone"
    assert isinstance(done, Done)
    assert (done.finish_reason, done.cache, done.chunks) == ("tool_calls", "exact", len(chunks))
    assert done.usage.completion_tokens_details == {"reasoning_tokens": 8, "cached_tokens": 70}
    assert (done.usage.cached_tokens, done.usage.prompt_tokens_details) == (9, {"audio_tokens": 3})


async def test_the_usage_of_a_hit_has_the_first_counts_marked_as_cached(rig: Rig) -> None:
    first, hit = await rig.stored(QUESTION), await rig.ask(SAME)
    assert hit.usage.completion_tokens == first.usage.completion_tokens > 0
    assert hit.usage.prompt_tokens == hit.usage.cached_tokens == first.usage.prompt_tokens
    assert hit.usage.completion_tokens_details == {"cached_tokens": hit.usage.completion_tokens}
