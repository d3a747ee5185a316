"""What has changed or was invalidated is never served by the cache, on no replica."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cache_rig import HERE, QUESTION, Caller, Shared, cold, missed, running, until, vector

from hasten.bus import Bus
from hasten.cache.invalidation import LISTED
from hasten.cache.service import Cache
from hasten.messages.cache import (
    INVALIDATED,
    Answer,
    CacheHit,
    CacheLookup,
    CacheMiss,
    CachePut,
    Invalidated,
    Invalidation,
    NotStored,
    Stored,
)
from hasten.messages.change import CHANGE, Change
from hasten.messages.failure import Failure
from hasten.messages.retrieve import DOCUMENT, Document
from hasten.nats_server import NatsServer
from hasten.replicas import LEASE_S
from hasten.service import Service
from hasten.vectors.opening import store
from hasten.vectors.store import VectorStore, Where

# When it is stale.


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


# Invalidation.


@pytest.mark.parametrize(
    "named",
    [
        {"tags": ["prices:7"]},
        {"tags": ["prices"]},
        {"documents": ["help/returns"]},
        {"models": ["m1"]},
        {"everything": True},
        {"tags": ["no such"], "documents": ["help/returns"]},
    ],
)
async def test_an_invalidation_removes_what_it_names_in_every_scope(
    cache: Cache, vectors: VectorStore, acme: Caller, named: dict[str, Any]
) -> None:
    tags = ["prices:7", "document:help/returns"]
    for user in ("", "u1", "u9"):
        await acme.put(f"k{user}", tags=tags, partition=f"p{user}", user=user)
    await acme.put("kept", answer=Answer(text="x", model="m2"), tags=["prices:8a"], partition="kept")
    other = Caller(acme.bus, "other")
    await other.put("k", tags=tags)
    gone = 4 if named in ({"tags": ["prices"]}, {"everything": True}) else 3
    dry = await acme.invalidate(**named, dry_run=True)
    assert (dry.entries, len(dry.listed)) == (gone, gone)
    assert {one.text for one in dry.listed} == {QUESTION}
    assert await vectors.count() == 5, "a dry run removes nothing"
    done = await acme.invalidate(**named)
    assert (done.entries, done.sequence) == (gone, cache._freshness.applied)
    assert await vectors.count() == 5 - gone
    for user in ("", "u1", "u9"):
        assert missed(await acme.exact(f"k{user}")) == "absent"
        assert missed(await acme.near(partition=f"p{user}")) == "absent"
    assert isinstance(await acme.exact("kept"), CacheHit) == (gone == 3)
    assert isinstance(await other.exact("k"), CacheHit)


@pytest.mark.parametrize("tag", ["", "x" * 2049, "prices:" + "7" * 2048])
@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_tag_that_no_replica_would_remember_is_refused(
    cache: Cache, acme: Caller, tag: str, dry_run: bool
) -> None:
    """Else what stands above it is evicted, everything at worst, and the reply tells of nothing."""
    await acme.put("k", tags=["prices:7"])
    refused = await acme.invalidate(tags=[tag], dry_run=dry_run)
    assert (refused.code, refused.param) == ("bad_request", "tags")
    assert isinstance(await acme.exact("k"), CacheHit)


async def test_an_invalidation_says_what_it_removed(cache: Cache, bus: Bus, acme: Caller) -> None:
    heard: list[tuple[Invalidated, str]] = []
    listener = Service(bus, "test", "Hears.")
    listener.listen(INVALIDATED, lambda event, tokens: heard.append((event, tokens["tenant"])))
    await listener.start()
    await acme.put("k", tags=["prices:7"])
    done = await acme.invalidate(tags=["prices:7"], reason="wrong")
    await acme.invalidate(tags=["prices:7"])
    await asyncio.sleep(0.1)
    assert heard == [(Invalidated(tags=["prices:7"], entries=1, reason="wrong", sequence=done.sequence), "acme")]
    assert cache.report()["invalidations"] == 2
    await listener.drain()


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ({"documents": ["help/returns"]}, ["document:help/returns"]),
        ({"models": ["m1"], "tags": ["prices:7"]}, ["prices:7", "model:m1"]),
        ({"everything": True, "models": ["m1"]}, ["*"]),
    ],
)
async def test_what_an_invalidation_named_is_told_as_tags(
    cache: Cache, bus: Bus, acme: Caller, named: dict[str, Any], told: list[str]
) -> None:
    heard: list[Invalidated] = []
    listener = Service(bus, "test", "Hears.")
    listener.listen(INVALIDATED, lambda event, tokens: heard.append(event))
    await listener.start()
    await acme.put("k", tags=["document:help/returns"])
    await acme.invalidate(**named)
    stored = await acme.put("k")
    await acme.invalidate(entries=[stored.entry_id])

    async def said() -> bool:
        return len(heard) == 2

    await until(said)
    assert [event.tags for event in heard] == [told, [f"entry:{stored.entry_id}"]]
    await listener.drain()


async def test_a_dry_run_counts_each_entry_once_and_reads_only_what_it_lists(
    bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    read: list[int] = []

    class Counting(Shared):
        async def scroll(self, where: Where, limit: int, fields: Any = None) -> Any:
            read.append(limit)
            return await vectors.scroll(where, limit, fields)

    counting: Any = Counting(vectors)
    async with running(bus, counting, sweep_s=60):
        tags = [f"t:{number}" for number in range(300)]
        await asyncio.gather(*(acme.put(f"k{n}", tags=[tags[n], tags[-1]], vector=None) for n in range(LISTED + 20)))
        read.clear()
        dry = await acme.invalidate(tags=tags, dry_run=True)
        assert (dry.entries, len(dry.listed)) == (LISTED + 20, LISTED)
        assert len({one.entry_id for one in dry.listed}) == LISTED
        assert sum(read) <= 2 * LISTED
        assert (await acme.invalidate(everything=True, tags=["no such"], dry_run=True)).entries == LISTED + 20


async def test_a_bare_change_is_swept_and_told_for_each_tenant(cache: Cache, bus: Bus, vectors: VectorStore) -> None:
    heard: list[tuple[str, int]] = []
    listener = Service(bus, "test", "Hears.")
    listener.listen(INVALIDATED, lambda event, tokens: heard.append((tokens["tenant"], event.entries)))
    await listener.start()
    for tenant in ("a", "b"):
        await Caller(bus, tenant).put("k1", tags=["prices:7"])
        await Caller(bus, tenant).put("k2", tags=["prices:8"])
    sequence = await bus.store(CHANGE, Change(table="prices", key=7), source="shop")
    await Caller(bus, "a").put("k3", tags=["prices:7"], read_seq=sequence)

    async def swept() -> bool:
        return len(heard) == 2

    await until(swept)
    assert sorted(heard) == [("a", 1), ("b", 1)]
    assert await vectors.count() == 3 if cache._freshness.applied >= sequence else True
    await listener.drain()


@pytest.mark.parametrize("named", [{}, {"reject": "x", "tags": ["t"]}, {"tags": [f"t{n}" for n in range(600)]}])
async def test_an_invalidation_of_nothing_is_refused(cache: Cache, acme: Caller, named: dict[str, Any]) -> None:
    reply = await acme.invalidate(**named)
    assert isinstance(reply, Failure)
    assert reply.code == "bad_request"


async def test_after_the_reply_no_replica_serves_what_was_invalidated(nats_server: NatsServer, tmp_path: Path) -> None:
    """Two replicas with connections of their own share a store; either may be asked, both must have heard."""
    shared: Any = Shared(store(":memory:", tmp_path, "cache"))
    one, two = await Bus.connect(nats_server.url), await Bus.connect(nats_server.url)
    acme = Caller(await Bus.connect(nats_server.url))
    async with running(one, shared) as first, running(two, shared) as second:
        for number in range(15):
            tag = f"prices:{number}"
            await acme.put("k", answer=f"answer {number}", tags=[tag])
            for replica in (first, second):
                await replica._finder.find(CacheLookup(key="k"), "acme", replica._era)
            done = await acme.invalidate(tags=[tag])
            assert isinstance(done, Invalidation)
            assert done.entries == 1
            for replica in (first, second):
                found = await replica._finder.find(CacheLookup(key="k"), "acme", replica._era)
                assert missed(found) in ("absent", "stale")
        assert first.report()["invalidations"] + second.report()["invalidations"] == 15
    for bus in (one, two, acme.bus):
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
