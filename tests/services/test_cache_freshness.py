"""What has changed since it was read is never served by the cache, on no replica."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cache_rig import HERE, QUESTION, Caller, Shared, cold, missed, running, until, vector

from hasten.bus import Bus
from hasten.cache.service import Cache
from hasten.messages.cache import (
    Answer,
    CacheHit,
    CacheLookup,
    CacheMiss,
    CachePut,
    Invalidation,
    NotStored,
    Stored,
)
from hasten.messages.change import CHANGE, Change
from hasten.messages.retrieve import DOCUMENT, Document
from hasten.nats_server import NatsServer
from hasten.replicas import LEASE_S
from hasten.vectors.opening import store
from hasten.vectors.store import VectorStore


@pytest.mark.parametrize("warm", [True, False])
async def test_a_change_of_a_row_outdates_the_answers_that_used_it(cache: Cache, acme: Caller, warm: bool) -> None:
    await acme.put("seven", tags=["prices:7"], partition="7")
    await acme.put("eight", tags=["prices:8"], partition="8")
    await acme.put("table", tags=["prices"], partition="t")
    if not warm:
        await cold(cache)
    sequence = await acme.bus.store(CHANGE, Change(table="prices", key=7), source="shop")

    async def applied() -> bool:
        return cache._freshness.applied >= sequence

    await until(applied)
    for gone_or_not_yet in (acme.exact("seven"), acme.near(partition="7"), acme.exact("table")):
        assert missed(await gone_or_not_yet) in ("stale", "absent")
    assert isinstance(await acme.exact("eight"), CacheHit)
    await acme.bus.store(CHANGE, Change(table="prices", op="truncate"), source="shop")

    async def gone() -> bool:
        return isinstance(await acme.exact("eight"), CacheMiss)

    await until(gone)
    assert missed(await acme.exact("eight")) in ("stale", "absent")


async def test_a_new_version_of_a_document_outdates_its_answers_and_its_collections(cache: Cache, acme: Caller) -> None:
    tags = ["document:help/returns", "collection:help"]
    await acme.put("k", tags=tags)
    await Caller(acme.bus, "other").put("k", tags=tags)
    await acme.bus.store(DOCUMENT, Document(id="returns", text="14 days"), tenant="acme", collection="help")

    async def stale() -> bool:
        return isinstance(await acme.exact("k"), CacheMiss)

    await until(stale)
    assert isinstance(await Caller(acme.bus, "other").exact("k"), CacheHit)


async def test_an_answer_read_before_a_change_and_stored_after_it_is_never_served(cache: Cache, acme: Caller) -> None:
    read_seq = (await acme.exact("k")).read_seq
    sequence = await acme.bus.store(CHANGE, Change(table="docs", key="d7"), source="shop")

    async def applied() -> bool:
        return cache._freshness.applied >= sequence

    await until(applied)
    late = await acme.put("k", answer="old", tags=["docs:d7"], read_seq=read_seq)
    assert isinstance(late, NotStored)
    assert late.reason == "stale"
    assert missed(await acme.exact("k")) == "absent"
    assert isinstance(await acme.put("k", answer="new", tags=["docs:d7"], read_seq=sequence), Stored)
    assert (await acme.exact("k")).answer.text == "new"


async def test_a_stale_put_that_slips_in_before_the_change_is_known_is_not_served_either(
    cache: Cache, acme: Caller
) -> None:
    await acme.put("k", answer="old", tags=["docs:d7"], read_seq=0)
    assert isinstance(await acme.exact("k"), CacheHit)
    assert isinstance(await acme.invalidate(tags=["docs:d7"]), Invalidation)
    assert missed(await acme.exact("k")) == "absent"


async def test_nobody_can_store_for_the_future(cache: Cache, acme: Caller) -> None:
    await acme.put("k", tags=["docs:d7"], read_seq=10**15)
    await acme.invalidate(tags=["docs:d7"])
    assert missed(await acme.exact("k")) == "absent"


async def test_an_entry_of_another_stream_is_not_served(cache: Cache, vectors: VectorStore, acme: Caller) -> None:
    stored = await acme.put("k")
    await cold(cache)
    await vectors.set_payload([stored.entry_id], {"era": "1@another time"})
    assert missed(await acme.exact("k")) == "stale"
    assert missed(await acme.near()) == "absent"


async def test_cut_off_a_replica_serves_no_hit_after_its_lease(nats_server: NatsServer, tmp_path: Path) -> None:
    bus = await Bus.connect(nats_server.url)
    acme = Caller(bus)
    async with running(bus, store(":memory:", tmp_path, "cache")) as cache:
        await acme.put("k")
        assert isinstance(await acme.exact("k"), CacheHit)
        await nats_server.stop(kill=True)
        await asyncio.sleep(LEASE_S + 0.2)
        found = await cache._finder.find(CacheLookup(key="k"), "acme", cache._era)
        assert missed(found) == "lease"
        await nats_server.start()

        async def hits_again() -> bool:
            return isinstance(await acme.exact("k"), CacheHit)

        await until(hits_again, 20)
    await bus.close()


async def test_a_replica_takes_over_what_another_replaced(nats_server: NatsServer, tmp_path: Path) -> None:
    shared: Any = Shared(store(":memory:", tmp_path, "cache"))
    one, two = await Bus.connect(nats_server.url), await Bus.connect(nats_server.url)
    async with running(one, shared) as first, running(two, shared, hot_s=0.2) as second:
        await Caller(one).put("k", answer="old")
        lookup = CacheLookup(key="k")
        await second._finder.find(lookup, "acme", second._era)
        await first._on_put(
            CachePut(key="k", answer=Answer(text="new"), read_seq=0), type("Call", (), {"tenant": "acme"})()
        )
        await asyncio.sleep(0.25)
        found = await second._finder.find(lookup, "acme", second._era)
        assert found.answer.text == "new"  # type: ignore[union-attr]
    for bus in (one, two):
        await bus.close()


async def test_a_rejected_pair_never_hits_again_on_any_replica_after_a_restart(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    shared: Any = Shared(store(":memory:", tmp_path, "cache"))
    one, two = await Bus.connect(nats_server.url), await Bus.connect(nats_server.url)
    acme = Caller(one)
    asked = "how long is the return period for shoes"
    async with running(one, shared) as first, running(two, shared) as second:
        stored = await acme.put("k")
        assert (await acme.near(asked)).entry_id == stored.entry_id
        done = await acme.invalidate(entries=[stored.entry_id], reject=asked)
        assert done.entries == 1
        assert missed(await acme.exact("k")) == "absent"
        await acme.put("k", read_seq=done.sequence)
        for replica in (first, second):
            found = await replica._finder.find(CacheLookup(key="other", text=asked, vector=HERE), "acme", replica._era)
            assert (missed(found), found.nearest) == ("rejected", stored.entry_id)  # type: ignore[union-attr]
        assert isinstance(await acme.near(f"{QUESTION} "), CacheMiss), "the same question but for its spacing"
    async with running(one, shared):
        assert missed(await acme.near(asked)) == "rejected"
        await acme.put("asked", asked, vector=vector(0.0, 1.0), read_seq=10**9)
        assert missed(await acme.near(QUESTION, key="new", vector=vector(0.0, 1.0))) == "rejected", "nor the other way"
        assert (await acme.exact("k")).kind == "exact", "the entry itself is sound"
    for bus in (one, two):
        await bus.close()
