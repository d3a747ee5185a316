"""The cache over a real NATS server and a real store: what it finds, who may see it, and what it stores."""

from pathlib import Path
from typing import Any

import pytest
from cache_rig import DIM, QUESTION, Caller, cold, missed, running, vector

from hasten.bus import Bus
from hasten.cache.service import Cache, build
from hasten.cache.settings import Settings
from hasten.messages.cache import (
    Answer,
    CacheHit,
    NotStored,
)
from hasten.messages.failure import Failure
from hasten.vectors.store import StoreError, VectorStore

# What is found.


@pytest.mark.parametrize("warm", [True, False])
async def test_an_exact_hit_is_the_whole_answer(cache: Cache, acme: Caller, warm: bool) -> None:
    answer = Answer(text="30 days", model="m1", reasoning="law", notes=[{"kind": "sources", "data": {"passages": []}}])
    stored = await acme.put("k", answer=answer, tags=["prices:7"])
    if not warm:
        await cold(cache)
    hit = await acme.exact("k")
    assert isinstance(hit, CacheHit)
    assert (hit.kind, hit.entry_id, hit.answer) == ("exact", stored.entry_id, answer)
    assert set(hit.tags) == {"prices:7", "model:m1", f"entry:{stored.entry_id}"}


async def test_a_true_paraphrase_hits_by_meaning_and_names_its_entry(cache: Cache, acme: Caller) -> None:
    stored = await acme.put("k")
    doubted = await acme.near("What is the return period for shoes?", vector=vector(1.0, 0.1))
    assert missed(doubted) in ("guard", "threshold")
    hit = await acme.near("how long is the return period for shoes", vector=vector(1.0, 0.1))
    assert isinstance(hit, CacheHit)
    assert (hit.kind, hit.entry_id) == ("semantic", stored.entry_id)
    assert 0.99 < hit.similarity < 1.0
    assert (hit.confidence or 0) > 0.98


async def test_collections_and_tenants_may_have_a_threshold_of_their_own(
    bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    asked = "how long is the return period for shoes"
    thresholds = {"health": 0.9999, "vault": 1.0, "tenant:bank": 1.0}
    async with running(bus, vectors, thresholds=thresholds):
        bank = Caller(bus, "bank")
        await acme.put("k")
        await bank.put("k")
        assert isinstance(await acme.near(asked, vector=vector(1.0, 0.1), collections=["news"]), CacheHit)
        strict = await acme.near(asked, vector=vector(1.0, 0.6), collections=["news", "health"])
        assert (missed(strict), strict.threshold) == ("threshold", 0.9999)
        assert missed(await acme.near(asked, collections=["health", "vault"])) == "disabled"
        assert missed(await bank.near(asked)) == "disabled"
        assert isinstance(await bank.exact("k"), CacheHit)


async def test_the_key_found_by_meaning_is_an_exact_hit(cache: Cache, acme: Caller) -> None:
    await acme.put("k")
    assert (await acme.near(key="k")).kind == "exact"


async def test_a_miss_says_why(cache: Cache, acme: Caller) -> None:
    stored = await acme.put("k")
    far = await acme.near(vector=vector(0.5, 1.0))
    assert missed(far) == "threshold"
    assert far.nearest == stored.entry_id
    assert far.similarity == pytest.approx(0.447, abs=0.01)
    refused = await acme.near("How long is the return period for boots?")
    assert (missed(refused), refused.guard, refused.nearest) == ("guard", "words", stored.entry_id)
    assert missed(await acme.exact("absent")) == "absent"
    assert missed(await acme.near("return shoes?")) == "short"
    assert missed(await acme.near("How long is my order underway?")) == "uncacheable"
    assert missed(await acme.near("Which shops are open today in Oslo?")) == "uncacheable"


async def test_a_refused_neighbour_does_not_hide_the_next(cache: Cache, acme: Caller) -> None:
    await acme.put("k1", "How long is the return period for boots?")
    good = await acme.put("k2", vector=vector(1.0, 0.05))
    assert (await acme.near()).entry_id == good.entry_id


async def test_zero_distance_means_the_identical_text(cache: Cache, acme: Caller) -> None:
    await acme.put("k", "how high is Mount Elgon?")
    assert missed(await acme.near("how high's Mount Elgon?", max_distance=0)) == "threshold"
    assert isinstance(await acme.near("how high's Mount Elgon?"), CacheHit)
    assert isinstance(await acme.near("how high is Mount Elgon?", max_distance=0), CacheHit)


async def test_a_caller_can_only_tighten_the_distance(cache: Cache, acme: Caller) -> None:
    await acme.put("k")
    assert missed(await acme.near(vector=vector(1.0, 0.4), max_distance=0.01)) == "threshold"
    assert missed(await acme.near(vector=vector(0.5, 1.0), max_distance=2.0)) == "threshold"


async def test_what_is_stored_without_a_vector_is_found_by_its_key_only(cache: Cache, acme: Caller) -> None:
    await acme.put("k", vector=None)
    assert missed(await acme.near()) == "absent"
    assert isinstance(await acme.exact("k"), CacheHit)


async def test_meaning_can_be_switched_off(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    async with running(bus, vectors, semantic=False):
        await acme.put("k")
        assert missed(await acme.near()) == "disabled"
        assert isinstance(await acme.exact("k"), CacheHit)


async def test_the_report_counts_what_happened(cache: Cache, acme: Caller) -> None:
    await acme.put("k")
    await acme.put("k2", answer="")
    await acme.exact("k")
    await acme.exact("none")
    await acme.near("how long is the return period for shoes")
    report = cache.report()
    assert report["hits"] == {"exact": 1, "semantic": 1}
    assert report["misses"] == {"absent": 1}
    assert report["lookups"] == {"exact": 2, "semantic": 1}
    assert report["hit_rate"] == pytest.approx(2 / 3, abs=1e-3)
    assert report["puts"] == {"stored": 1, "empty": 1}
    assert (report["entries"], report["hot_entries"]) == (1, 1)
    assert report["hot_bytes"] > 0


# Who may see it.


async def test_a_tenant_never_sees_another_tenants_entry(cache: Cache, bus: Bus) -> None:
    long_text = " ".join(f"clause {number} of the leave policy" for number in range(60))
    a, b = Caller(bus, "tenant-a"), Caller(bus, "tenant-b")
    await a.put("same-key", QUESTION, "the answer of a")
    assert missed(await b.exact("same-key")) == "absent"
    assert missed(await b.near(QUESTION)) == "absent"
    assert missed(await b.near(long_text[:1500])) == "absent"
    await b.put("same-key", QUESTION, "the answer of b")
    assert (await a.exact("same-key")).answer.text == "the answer of a"
    assert (await a.near(QUESTION)).answer.text == "the answer of a"
    assert (await b.near(QUESTION)).answer.text == "the answer of b"
    await b.invalidate(everything=True)
    assert isinstance(await a.exact("same-key"), CacheHit)


async def test_an_entry_whose_payload_names_another_tenant_is_not_served(
    cache: Cache, vectors: VectorStore, acme: Caller
) -> None:
    stored = await acme.put("k")
    await cold(cache)
    await vectors.set_payload([stored.entry_id], {"owner": "other"})
    assert missed(await acme.exact("k")) == "absent"
    assert missed(await acme.near()) == "absent"


async def test_partitions_do_not_mix(cache: Cache, acme: Caller) -> None:
    await acme.put("k1", answer="for everybody", partition="p")
    await acme.put("k2", answer="for u9 alone", partition="p-of-u9")
    assert (await acme.near(partition="p")).answer.text == "for everybody"
    assert (await acme.near(partition="p-of-u9")).answer.text == "for u9 alone"
    assert missed(await acme.near(partition="p-of-u1")) == "absent"


# What is not stored.


@pytest.mark.parametrize(
    ("answer", "fields", "reason"),
    [
        (Answer(text="cut", finish_reason="length"), {}, "truncated"),
        (Answer(text="cut", finish_reason="content_filter"), {}, "truncated"),
        (Answer(text="cut", finish_reason="error"), {}, "truncated"),
        (Answer(text="cut", finish_reason=""), {}, "truncated"),
        (Answer(text=""), {}, "empty"),
        (Answer(text=" \n"), {}, "empty"),
        (Answer(text="", tool_calls=[{"id": "1"}], finish_reason="tool_calls"), {}, "tool_calls"),
        (Answer(text="ok"), {"ttl_s": 0}, "ttl"),
        (Answer(text="ok"), {"ttl_s": -5}, "ttl"),
    ],
)
async def test_only_whole_answers_are_stored(
    cache: Cache, acme: Caller, answer: Answer, fields: dict[str, Any], reason: str
) -> None:
    reply = await acme.put("k", answer=answer, **fields)
    assert isinstance(reply, NotStored)
    assert reply.reason == reason
    assert missed(await acme.exact("k")) == "absent"


@pytest.mark.parametrize(
    "fields", [{"key": ""}, {"key": "k" * 129}, {"key": "k", "partition": "p" * 129}, {"key": "k", "tags": ["t"] * 513}]
)
async def test_what_has_no_proper_name_is_refused(cache: Cache, acme: Caller, fields: dict[str, Any]) -> None:
    reply = await acme.put(**fields)
    assert isinstance(reply, Failure)
    assert reply.code == "bad_request"


# Where it is kept.


def test_an_address_that_is_none_is_refused_before_anything_runs(bus: Bus, tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        build(Settings(data=str(tmp_path), store_url="ftp://store"), bus)
    for address in ("", "embedded", "https://store:6333"):
        build(Settings(data=str(tmp_path), store_url=address, store_api_key="secret"), bus)


async def test_the_embedded_store_keeps_entries_over_a_restart(bus: Bus, tmp_path: Path, acme: Caller) -> None:
    pytest.importorskip("qdrant_edge")
    settings = Settings(data=str(tmp_path), dim=DIM)
    for restarted in (False, True):
        cache = build(settings, bus)
        await cache.start()
        if not restarted:
            await acme.put("k", tags=["prices:7"])
        assert isinstance(await acme.exact("k"), CacheHit)
        assert isinstance(await acme.near("how long is the return period for shoes"), CacheHit)
        assert cache.report()["entries"] == 1
        await cache.drain()
        await cache.close()
