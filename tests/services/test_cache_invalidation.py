"""What an operator says is outdated: removed on every replica and told, and only listed in a dry run."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cache_rig import QUESTION, Caller, Shared, missed, running, until

from hasten.bus import Bus
from hasten.cache.invalidation import LISTED
from hasten.cache.service import Cache
from hasten.messages.cache import (
    INVALIDATED,
    Answer,
    CacheHit,
    CacheLookup,
    Invalidated,
    Invalidation,
)
from hasten.messages.change import CHANGE, Change
from hasten.messages.failure import Failure
from hasten.nats_server import NatsServer
from hasten.service import Service
from hasten.vectors.opening import store
from hasten.vectors.store import VectorStore, Where


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
